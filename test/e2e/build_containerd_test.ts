/** Builds whose steps and snapshots are the host's containerd's: the engine, and `svc` against it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { selectWorker, WORKER_TABLES } from "../../backends/build/mod.ts";
import { loadServerSettings } from "../../lib/config/server_options.ts";
import { silent } from "../../lib/base/log.ts";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { createBuilder } from "../../lib/build/engine.ts";
import { stepNetworks } from "../../lib/build/networks.ts";
import { Containers, type SnapshotMessage, Snapshots } from "../../lib/containerd/api.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { unmount } from "../../lib/sys/mount.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { builderContract, type BuilderFixture } from "../contract/builder.ts";
import { amendedContract } from "../contract/builder_amend.ts";
import { timesContract } from "../contract/builder_times.ts";
import { imagesWithBase } from "../contract/builder_fixture.ts";
import { removeServerData } from "../peers/cleanup.ts";
import { type ContainerdPeer, removeGroups, startContainerd } from "../peers/containerd.ts";
import { eventually } from "../waits.ts";
import { inspect, withContext } from "./build_helpers.ts";
import { answering, get } from "../peers/outside.ts";
import { baseImage, e2eTest, requireTools, runTool, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["containerd", "ctr", "runc", "skopeo"],
  files: ["/bin/busybox"],
};

const { ignore } = requireTools(NEEDS);

let peer: ContainerdPeer;
let home: string;

Deno.test.beforeAll(async () => {
  if (ignore) return;
  home = await Deno.makeTempDir({ prefix: "svc-containerd-" });
  peer = await startContainerd(home);
});

Deno.test.afterAll(async () => {
  closeIdleWorkers();
  if (ignore) return;
  await peer[Symbol.asyncDispose]();
  // What ctr ran was in a group of its namespace.
  await removeGroups("svc-e2e-image");
  for (const { target } of await mountsUnder(home)) unmount(target, { detach: true });
  await Deno.remove(home, { recursive: true });
});

async function openEngine(): Promise<BuilderFixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-build-" });
  const images = await imagesWithBase(folder);
  const env = { SVC_BUILD_WORKER: "containerd", SVC_CONTAINERD_ADDRESS: peer.address };
  const { settings } = loadServerSettings([], env, WORKER_TABLES);
  const worker = await selectWorker(settings).open({
    root: `${folder}/build`,
    state: `${folder}/state`,
    runDir: `${folder}/run`,
    log: silent,
  });
  const snapshotter = worker.snapshotter!;
  const builder = await createBuilder({
    root: `${folder}/build`,
    snapshotter,
    executor: worker.executor,
    networks: stepNetworks("none"),
    images: worker.through!(images),
    shelves: worker.shelves,
    imageStore: worker.imageStore,
    log: silent,
    concurrency: 4,
    unpack: (image, options) => unpackImage(snapshotter, image, options),
  });
  return {
    builder,
    images,
    assertClean: async () => {
      await builder[Symbol.asyncDispose]();
      assert.deepEqual(await mountsUnder(folder), []);
      for await (const { kind, name } of snapshotter.list()) {
        assert.equal(kind, "committed", `${name} is left active`);
      }
    },
    [Symbol.asyncDispose]: async () => {
      await builder[Symbol.asyncDispose]();
      await worker[Symbol.asyncDispose]();
      closeIdleWorkers();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

builderContract({ name: "engine on containerd", ignore, open: openEngine });
amendedContract({ name: "engine on containerd", ignore, open: openEngine });
timesContract({ name: "engine on containerd", ignore, open: openEngine });

const serve = (env: Record<string, string> = {}) =>
  startServer({
    env: { SVC_BUILD_WORKER: "containerd", SVC_CONTAINERD_ADDRESS: peer.address, ...env },
  });

/** What is in the peer, in a namespace of one server's own. */
async function inContainerd(namespace: string, where: ContainerdPeer = peer) {
  await using client = new ContainerdClient({ address: where.address, namespace });
  const { containers } = await client.call(Containers.list, {}, "Cannot list containers");
  const snapshots: SnapshotMessage[] = [];
  const input = { snapshotter: "overlayfs" };
  for await (const { info } of client.stream(Snapshots.list, input, "Cannot list snapshots")) {
    snapshots.push(...info);
  }
  return {
    containers: containers.map(({ id }) => id),
    active: snapshots.filter(({ kind }) => kind !== 3).map(({ name }) => name),
    committed: snapshots.filter(({ kind }) => kind === 3).length,
  };
}

/** containerd's own client finds the image, has all of it, and runs it without a registry. */
async function runsIn(namespace: string, name: string, digest: string): Promise<void> {
  const ctr = async (...args: string[]) =>
    (await runTool("ctr", ["--address", peer.address, "--namespace", namespace, ...args])).stdout;
  const row = (await ctr("images", "check", `name==${name}`)).split("\n")
    .find((line) => line.startsWith(`${name} `));
  assert.ok(row, "the image is not there");
  assert.ok(row.includes(digest), row);
  assert.match(row, / complete \((\d+)\/\1\) /);
  assert.equal(await ctr("run", "--rm", name, `run-${crypto.randomUUID()}`), "one\ntwo\n");
}

const APP = (base: string) => ({
  Dockerfile: [
    `FROM ${base} AS make`,
    "WORKDIR /work",
    "COPY src ./src",
    "RUN mkdir out && cat src/part-* > out/page",
    "",
    `FROM ${base}`,
    "COPY --from=make /work/out /srv/app",
    "RUN --mount=type=cache,id=log,target=/c echo built >> /c/log && seq 1 100000 > /numbers",
    'CMD ["cat", "/srv/app/page"]',
  ].join("\n"),
  "src/part-1": "one\n",
  "src/part-2": "two\n",
});

e2eTest("containerd: an image as from the other worker; again it is cached", NEEDS, async () => {
  const namespace = "svc-e2e-image";
  await using server = await serve({ SVC_CONTAINERD_NAMESPACE: namespace });
  await using other = await startServer();
  const base = await baseImage(server, "base:1");
  await baseImage(other, "base:1");
  const argument = ["--build-arg", "SOURCE_DATE_EPOCH=1700000000"];
  await withContext(APP("base:1"), async (directory) => {
    const args = ["build", ...argument, "-t", "app:1", directory];
    const first = await server.svc(args);
    assert.equal(first.code, 0, first.stderr);
    const built = await other.svc(args);
    assert.equal(built.code, 0, built.stderr);
    const { Digest } = await inspect(server, "app:1");
    assert.equal((await inspect(other, "app:1")).Digest, Digest);
    await runsIn(namespace, `localhost:${server.port}/app:1`, Digest);
    const again = await server.svc(args);
    assert.match(again.stderr + again.stdout, /CACHED/);
    await server.restart();
    const later = await server.svc(args);
    assert.equal(later.code, 0, later.stderr);
    assert.match(later.stderr + later.stdout, /CACHED/);
  });
  const Dockerfile = `FROM ${base.name}\nRUN --mount=type=cache,id=log,target=/c cat /c/log\n`;
  await withContext({ Dockerfile }, async (directory) => {
    const { code, stdout, stderr } = await server.svc(["build", directory]);
    assert.equal(code, 0, stderr);
    assert.match(stdout + stderr, /\bbuilt\n/);
  });
  // A build's client may hear of its end a moment before that.
  await eventually("tidying up", async () => {
    const { containers, active } = await inContainerd(namespace);
    return containers.length + active.length === 0;
  });
  const { committed } = await inContainerd(namespace);
  assert.ok(committed >= 5, "the steps' results are containerd's");
});

e2eTest(
  "containerd: a step has a network of its own, without the host's loopback",
  NEEDS,
  async () => {
    await using server = await serve({ SVC_CONTAINERD_NAMESPACE: "svc-e2e-network" });
    const base = await baseImage(server, "base:1");
    await using loopback = answering("127.0.0.1");
    const script = `ip -4 -o addr show eth0; readlink /proc/self/ns/net; ` +
      `${get("127.0.0.1", loopback.port)} || echo not reached`;
    await withContext({ Dockerfile: `FROM ${base.name}\nRUN ${script}\n` }, async (directory) => {
      const { code, stderr } = await server.svc(["build", "--progress", "plain", directory]);
      assert.equal(code, 0, stderr);
      assert.match(stderr, /inet 10\.\d+\.255\.\d+\/24/);
      assert.match(stderr, / not reached\n/);
      assert.ok(!stderr.includes(Deno.readLinkSync("/proc/self/ns/net")));
      assert.deepEqual(loopback.paths, []);
    });
  },
);

e2eTest("containerd: a failing step, and a client that goes away", NEEDS, async () => {
  const namespace = "svc-e2e-fail";
  await using server = await serve({ SVC_CONTAINERD_NAMESPACE: namespace });
  const base = await baseImage(server, "base:1");
  const failing = { Dockerfile: `FROM ${base.name}\n\nRUN echo some words; exit 42\n` };
  await withContext(failing, async (directory) => {
    const failed = await server.svc(["build", directory]);
    assert.equal(failed.code, 1);
    const shown = failed.stderr + failed.stdout;
    for (const part of [/Dockerfile:3/, /some words\n/, /42/]) assert.match(shown, part);
  });
  await withContext({ Dockerfile: `FROM ${base.name}\nRUN sleep 100000\n` }, async (directory) => {
    const abort = new AbortController();
    const build = server.svc(["build", directory], { signal: abort.signal });
    await eventually(
      "the step",
      async () => (await inContainerd(namespace)).containers.length === 1,
    );
    abort.abort();
    await build;
    await eventually("the end of the step", async () => {
      const { containers, active } = await inContainerd(namespace);
      return containers.length + active.length === 0;
    });
  });
});

e2eTest("containerd: kill -9 in the middle leaves nothing that lasts", NEEDS, async () => {
  const namespace = "svc-e2e-kill";
  await using server = await serve({ SVC_CONTAINERD_NAMESPACE: namespace });
  const base = await baseImage(server, "base:1");
  const kept = `FROM ${base.name}\nRUN echo kept > /kept\n`;
  await withContext({ Dockerfile: `${kept}RUN sleep 100000\n` }, async (directory) => {
    const cut = server.svc(["build", "-t", "app", directory]);
    await eventually(
      "the second step",
      async () => {
        const { containers, committed } = await inContainerd(namespace);
        return containers.length === 1 && committed === 2;
      },
    );
    await server.kill9();
    assert.notEqual((await cut).code, 0);
    assert.equal((await inContainerd(namespace)).containers.length, 1);
    await server.restart();
    // Without a build: the restart itself ends what the crash left running.
    await eventually("the end of the step", async () => {
      const { containers, active } = await inContainerd(namespace);
      return containers.length + active.length === 0;
    });
    await Deno.writeTextFile(join(directory, "Dockerfile"), `${kept}RUN echo over\n`);
    const again = await server.svc(["build", "-t", "app", directory]);
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stderr + again.stdout, /CACHED[^\n]*kept|kept[^]*CACHED/);
    await inspect(server, "app:latest");
  });
});

e2eTest(
  "containerd: one that goes away fails the build, and the next one works",
  NEEDS,
  async () => {
    const namespace = "svc-e2e-away";
    const folder = await Deno.makeTempDir({ prefix: "svc-containerd-" });
    try {
      await using own = await startContainerd(folder);
      await using server = await serve({
        SVC_CONTAINERD_NAMESPACE: namespace,
        SVC_CONTAINERD_ADDRESS: own.address,
      });
      const base = await baseImage(server, "base:1");
      const Dockerfile = `FROM ${base.name}\nRUN echo begun; sleep 100000\n`;
      await withContext({ Dockerfile }, async (directory) => {
        const cut = server.svc(["build", directory]);
        let step = "";
        await eventually("the step", async () => {
          const { containers } = await inContainerd(namespace, own);
          step = containers[0];
          return containers.length === 1;
        });
        await own.stop();
        const { code, stderr } = await cut;
        assert.equal(code, 1);
        assert.match(stderr, /containerd/);
        await own.start();
        await Deno.writeTextFile(
          join(directory, "Dockerfile"),
          `FROM ${base.name}\nRUN echo over\n`,
        );
        const again = await server.svc(["build", directory]);
        assert.equal(again.code, 0, again.stderr);
        await eventually(
          "tidying up",
          async () => (await inContainerd(namespace, own)).containers.length === 0,
        );
        await removeGroups(step);
      });
    } finally {
      for (const { target } of await mountsUnder(folder)) unmount(target, { detach: true });
      await Deno.remove(folder, { recursive: true });
    }
  },
);

e2eTest("containerd: a server may change its worker", NEEDS, async () => {
  const dataDir = await Deno.makeTempDir({ prefix: "svc-e2e-" });
  try {
    for (const worker of ["runc", "containerd", "runc"]) {
      await using server = await startServer({
        dataDir,
        env: {
          SVC_BUILD_WORKER: worker,
          SVC_CONTAINERD_ADDRESS: peer.address,
          SVC_CONTAINERD_NAMESPACE: "svc-e2e-change",
        },
      });
      await baseImage(server, "base:1");
      await withContext(APP("base:1"), async (directory) => {
        for (const flags of [[], ["--no-cache"]]) {
          const built = await server.svc(["build", ...flags, "-t", "app:1", directory]);
          assert.equal(built.code, 0, `${worker}: ${built.stderr}`);
        }
      });
      await server.stop();
    }
  } finally {
    await removeServerData(dataDir);
  }
});

e2eTest("containerd: one that is not there is told, and the registry works", NEEDS, async () => {
  await using server = await serve({ SVC_CONTAINERD_ADDRESS: join(home, "none.sock") });
  const base = await baseImage(server, "base:1");
  await withContext({ Dockerfile: `FROM ${base.name}\nRUN true\n` }, async (directory) => {
    const { code, stderr } = await server.svc(["build", directory]);
    assert.equal(code, 1);
    assert.match(stderr, /Cannot use containerd at .*none\.sock: there is no such socket/);
    assert.match(stderr, /SVC_CONTAINERD_ADDRESS/);
  });
});
