/** `svc push` and `svc pull` against the tools people use beside them, and over connections that break. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { putImage, putIndexJson, tagged, writeMultiLayout } from "../fixtures/images.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { e2eTest, EXECUTABLE, runTool, startServer } from "./harness.ts";

const TRANSPORTS = ["docker-archive", "oci-archive", "oci"] as const;

async function withFolder(fn: (path: (name: string) => string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-transfer-" });
  try {
    await fn((name) => join(folder, name));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const skopeo = (...args: string[]) => runTool("skopeo", ["--insecure-policy", ...args]);

async function inspect(place: string): Promise<{ config: string; layers: unknown }> {
  const { stdout } = await skopeo("inspect", "--config", place);
  const config = JSON.parse(stdout);
  return { config: JSON.stringify(config.config), layers: config.rootfs.diff_ids };
}

e2eTest("skopeo reads what svc pull writes, svc push what skopeo writes", {
  commands: ["skopeo"],
  files: ["/bin/busybox"],
}, async () => {
  await using server = await startServer();
  await withFolder(async (path) => {
    const digest = await writeBaseLayout(path("base"), "v1", {
      layers: [{ "a": "1" }, { "b": "2" }],
    });
    const pushed = await server.svc(["push", `oci:${path("base")}:v1`, "app:v1"]);
    assert.equal(pushed.stdout, `${server.host}/app:v1@${digest}\n`, pushed.stderr);
    const wanted = await inspect(`oci:${path("base")}:v1`);

    for (const transport of TRANSPORTS) {
      const name = transport === "docker-archive" ? "docker.io/library/app:v1" : "v1";
      const ours = `${transport}:${path(`ours-${transport}`)}`;
      const pulled = await server.svc(["pull", "app:v1", ours]);
      assert.equal(pulled.code, 0, pulled.stderr);
      assert.deepEqual(await inspect(`${ours}:${name}`), wanted);
      await skopeo("copy", "--quiet", `${ours}:${name}`, `dir:${path(`dir-${transport}`)}`);
      // Ours back again: the digest stays, in a docker archive too.
      const back = await server.svc(["push", ours, `back/${transport}:v1`, "-q"]);
      assert.equal(back.stdout, `${digest}\n`, back.stderr);

      const theirs = `${transport}:${path(`theirs-${transport}`)}:${name}`;
      await skopeo("copy", "--quiet", `oci:${path("base")}:v1`, theirs);
      const taken = await server.svc(["push", theirs, `theirs/${transport}:v1`, "-q"]);
      assert.equal(taken.code, 0, taken.stderr);
      // A docker archive of skopeo's holds unpacked layers: the manifest is another, the image is not.
      if (transport !== "docker-archive") assert.equal(taken.stdout, `${digest}\n`);
      const image = `docker://${server.host}/theirs/${transport}:v1`;
      const { stdout } = await skopeo("inspect", "--tls-verify=false", "--config", image);
      assert.deepEqual(JSON.parse(stdout).rootfs.diff_ids, wanted.layers);
    }
  });
});

e2eTest("several platforms and referrers travel whole, and between registries", {
  commands: ["skopeo", "docker-registry"],
}, async () => {
  await using server = await startServer();
  await using other = await startDockerRegistry();
  await withFolder(async (path) => {
    const image = await writeMultiLayout(path("in"), "v1");
    const there = `${other.host}/team/app:v1`;
    const out = await server.svc(["push", `oci:${path("in")}:v1`, there, "--referrers"]);
    assert.equal(out.stdout, `${there}@${image.index.digest}\n`, out.stderr);
    const here = await server.svc(["pull", there, "--referrers"]);
    assert.equal(here.stdout, `${server.host}/team/app:v1@${image.index.digest}\n`, here.stderr);
    const answer = await fetch(`${server.url}/v2/team/app/referrers/${image.index.digest}`);
    const { manifests } = await answer.json() as { manifests: { digest: string }[] };
    assert.deepEqual(manifests.map((m) => m.digest), [image.signature.digest]);
    const archive = `oci-archive:${path("all.tar")}`;
    assert.equal((await server.svc(["pull", "team/app:v1", archive])).code, 0);
    await skopeo("copy", "--quiet", "--all", `${archive}:v1`, `oci:${path("copy")}:v1`);
    const copied = JSON.parse(await Deno.readTextFile(path("copy/index.json")));
    assert.equal(copied.manifests[0].digest, image.index.digest);
  });
});

const CONTAINERS_CONF = `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`;

e2eTest("podman loads what svc pull -o writes; svc push takes what podman saves", {
  commands: ["podman"],
  files: ["/bin/busybox"],
  root: true,
}, async () => {
  await using server = await startServer();
  await withFolder(async (path) => {
    const digest = await writeBaseLayout(path("base"), "v1", { layers: [{ "a": "1" }] });
    assert.equal((await server.svc(["push", `oci:${path("base")}`, "app:v1"])).code, 0);
    assert.equal((await server.svc(["pull", "app:v1", "-o", path("app.tar")])).code, 0);
    await Deno.writeTextFile(path("containers.conf"), CONTAINERS_CONF);
    const podman = (...args: string[]) =>
      runTool("podman", [
        ...["--root", path("root"), "--runroot", path("run"), "--storage-driver", "vfs"],
        ...args,
      ], { env: { CONTAINERS_CONF: path("containers.conf") } });
    await podman("load", "--quiet", "--input", path("app.tar"));
    const names = JSON.parse((await podman("images", "--format", "json")).stdout)
      .flatMap((entry: { Names: string[] }) => entry.Names);
    assert.equal(names.length, 1);
    assert.match(names[0], /\/app:v1$/);
    for (const format of ["docker-archive", "oci-archive"]) {
      await podman("save", "--quiet", "--format", format, "--output", path(format), names[0]);
      const taken = await server.svc(["push", `${format}:${path(format)}`, `podman:${format}`]);
      assert.equal(taken.code, 0, taken.stderr);
    }
    await Deno.writeFile(path("app.tar.gz"), gzipSync(await Deno.readFile(path("app.tar"))));
    const zipped = await server.svc(["push", path("app.tar.gz"), "zipped:v1", "-q"]);
    assert.equal(zipped.stdout, `${digest}\n`, zipped.stderr);
  });
});

interface Wire extends AsyncDisposable {
  host: string;
  /** Bytes that went each way so far. */
  up: number;
  down: number;
  cuts: number;
}

/** A wire to `port` that breaks once, when `limit` bytes went that way; `hold`: it waits there instead. */
function breakingWire(
  port: number,
  way: "up" | "down",
  limit: number,
  hold?: Promise<void>,
): Wire {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open = new Set<Deno.Conn>();
  const wire = { up: 0, down: 0, cuts: 0 };
  const pump = async (
    from: Deno.Conn,
    to: Deno.Conn,
    direction: "up" | "down",
    close: () => void,
  ) => {
    const buffer = new Uint8Array(65536);
    try {
      for (;;) {
        const count = await from.read(buffer);
        if (count === null) break;
        wire[direction] += count;
        if (direction === way && wire.cuts === 0 && wire[direction] > limit) {
          if (!hold) {
            wire.cuts++;
            break;
          }
          await hold;
        }
        for (let at = 0; at < count;) at += await to.write(buffer.subarray(at, count));
      }
    } catch {
      // One side is gone: so is the other.
    }
    close();
  };
  const accept = async () => {
    for await (const client of listener) {
      // While it waits nothing gets through: whoever comes is not turned away meanwhile.
      if (hold && wire[way] > limit) await hold;
      const upstream = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => undefined);
      if (!upstream) {
        client.close();
        continue;
      }
      const close = () => {
        for (const conn of [client, upstream]) if (open.delete(conn)) conn.close();
      };
      open.add(client).add(upstream);
      pump(client, upstream, "up", close);
      pump(upstream, client, "down", close);
    }
  };
  const accepting = accept();
  return Object.assign(wire, {
    host: `127.0.0.1:${listener.addr.port}`,
    [Symbol.asyncDispose]: async () => {
      listener.close();
      for (const conn of open) conn.close();
      await accepting.catch(() => {});
    },
  });
}

const MEBI = 1024 * 1024;

/** A layout with one layer of random bytes; its manifest's digest. */
async function largeLayout(directory: string, size: number): Promise<string> {
  const data = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) crypto.getRandomValues(data.subarray(at, at + 65536));
  const image = await putImage(directory, [{ data }], "amd64", false);
  await putIndexJson(directory, [tagged(image.manifest, "v1")]);
  return image.manifest.digest;
}

e2eTest("a connection that breaks is made good: only what is lacking goes again", {}, async () => {
  await using server = await startServer();
  await withFolder(async (path) => {
    const digest = await largeLayout(path("in"), 40 * MEBI);
    {
      await using wire = breakingWire(server.port, "up", 20 * MEBI);
      const env = { SVC_SERVER: `http://${wire.host}` };
      const pushed = await server.svc(["push", `oci:${path("in")}`, "app:v1", "-q"], { env });
      assert.equal(pushed.stdout, `${digest}\n`, pushed.stderr);
      assert.equal(wire.cuts, 1);
      // A piece of 8 MiB at most is sent twice.
      assert.ok(wire.up < 50 * MEBI, `${wire.up} bytes went up`);
    }
    await using wire = breakingWire(server.port, "down", 20 * MEBI);
    const env = { SVC_SERVER: `http://${wire.host}` };
    const pulled = await server.svc(["pull", "app:v1", "-o", path("out.tar"), "-q"], { env });
    assert.equal(pulled.stdout, `${digest}\n`, pulled.stderr);
    assert.equal(wire.cuts, 1);
    assert.ok(wire.down < 45 * MEBI, `${wire.down} bytes came down`);
  });
});

async function sizeOf(file: string): Promise<number> {
  return await Deno.stat(file).then((info) => info.size, () => 0);
}

e2eTest(
  "svc pull killed in its middle goes on where it was; SIGINT ends it with 130",
  {},
  async () => {
    await using server = await startServer();
    await withFolder(async (path) => {
      const digest = await largeLayout(path("in"), 120 * MEBI);
      const pushed = await server.svc(["push", `oci:${path("in")}`, "app:v1", "-q"]);
      assert.equal(pushed.stdout, `${digest}\n`, pushed.stderr);
      const partials = path("out/.partial");
      const arrived = async () => {
        let most = 0;
        try {
          for await (const { name } of Deno.readDir(partials)) {
            most = Math.max(most, await sizeOf(join(partials, name)));
          }
        } catch {
          // Not begun, or done already.
        }
        return most;
      };
      let before = 0;
      for (const [signal, exit] of [["SIGKILL", 137], ["SIGINT", 130]] as const) {
        // It comes so far and no further, however late it is stopped.
        const forEver = new Promise<void>(() => {});
        await using wire = breakingWire(server.port, "down", 40 * MEBI, forEver);
        const child = new Deno.Command(EXECUTABLE, {
          args: ["pull", "app:v1", `oci:${path("out")}`],
          env: { SVC_SERVER: `http://${wire.host}` },
          stdin: "null",
          stdout: "null",
          stderr: "null",
        }).spawn();
        let ended = false;
        const status = child.status.finally(() => ended = true);
        while (!ended && await arrived() <= before + 10 * MEBI) {
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
        assert.ok(!ended, "it was done before it could be stopped");
        child.kill(signal);
        assert.equal((await status).code, exit);
        assert.ok(await arrived() > before, `${signal} lost what had arrived`);
        before = await arrived();
        assert.equal(await sizeOf(path("out/index.json")), 0);
      }
      await using wire = breakingWire(server.port, "down", Infinity);
      const resumed = await server.svc(["pull", "app:v1", `oci:${path("out")}`, "-q"], {
        env: { SVC_SERVER: `http://${wire.host}` },
      });
      assert.equal(resumed.stdout, `${digest}\n`, resumed.stderr);
      assert.ok(wire.down < 121 * MEBI - before, `${wire.down} bytes came after ${before}`);
    });
  },
);

e2eTest("a server that restarts in the middle of a push does not end it", {}, async () => {
  await using server = await startServer();
  await withFolder(async (path) => {
    const digest = await largeLayout(path("in"), 200 * MEBI);
    const { promise: restarted, resolve } = Promise.withResolvers<void>();
    await using wire = breakingWire(server.port, "up", 60 * MEBI, restarted);
    const pushing = server.svc(["push", `oci:${path("in")}`, "app:v1", "-q"], {
      env: { SVC_SERVER: `http://${wire.host}` },
    });
    const uploading = async () => {
      // It fails where a file goes while it looks.
      const answer = await runTool("du", ["-sm", server.dataDir]).catch(() => undefined);
      return parseInt(answer?.stdout ?? "0");
    };
    let ended = false;
    pushing.finally(() => ended = true);
    while (!ended && await uploading() < 30) await new Promise((r) => setTimeout(r, 5));
    assert.ok(!ended, "it was done before the server could be stopped");
    await server.kill9();
    await server.restart();
    resolve();
    const pushed = await pushing;
    assert.equal(pushed.stdout, `${digest}\n`, pushed.stderr);
  });
});

e2eTest("a server that is not there, and names that are not", {}, async () => {
  await using server = await startServer();
  await withFolder(async (path) => {
    const nobody = { env: { SVC_SERVER: "http://127.0.0.1:2" } };
    const gone = await server.svc(["pull", "app:v1", "-o", path("x.tar")], nobody);
    assert.equal(gone.code, 1);
    assert.match(gone.stderr, /^svc: Cannot reach http:\/\/127.0.0.1:2: /);
    const none = await server.svc(["pull", "app:v1", "-o", path("x.tar")]);
    assert.equal(none.code, 1);
    assert.match(none.stderr, /app:v1: there is no such image/);
    await assert.rejects(Deno.stat(path("x.tar")), Deno.errors.NotFound);
    // A proxy is no way to this machine's own loopback.
    const image = await writeMultiLayout(path("in"), "v1");
    const env = { HTTP_PROXY: "http://127.0.0.1:2", http_proxy: "http://127.0.0.1:2" };
    const pushed = await server.svc(["push", `oci:${path("in")}`, "app:v1", "-q"], { env });
    assert.equal(pushed.stdout, `${image.index.digest}\n`, pushed.stderr);
  });
});
