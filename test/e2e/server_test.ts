/** `svc serve` as a process: start-up errors, logs, draining, and a disk that fills up. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { eventually } from "../waits.ts";
import { e2eTest, freePort, runTool, type Server, startServer, svc } from "./harness.ts";

/** No backend: these tests are about the server alone and need no root. */
const PLAIN = { env: { SVC_DEPLOY_BACKEND: "dockerhost", SVC_REGISTRY_SOURCE: "off" } };

async function withDir(body: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "svc-e2e-" });
  try {
    await body(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const digestOf = (bytes: Uint8Array) =>
  `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

async function startUpload(server: Server, repository: string): Promise<string> {
  const response = await fetch(`${server.url}/v2/${repository}/blobs/uploads/`, { method: "POST" });
  await response.body?.cancel();
  assert.equal(response.status, 202);
  return new URL(response.headers.get("location")!, server.url).href;
}

async function pushBlob(server: Server, repository: string, bytes: Uint8Array<ArrayBuffer>) {
  const location = new URL(await startUpload(server, repository));
  location.searchParams.set("digest", digestOf(bytes));
  return await fetch(location, { method: "PUT", body: bytes });
}

/** Enough for the server to write some of it to the disk. */
const BEGINNING = 4 * 1024 * 1024;

/** A PATCH whose body goes on until it is told to end; the server has some of it. */
async function openPatch(server: Server) {
  const location = await startUpload(server, "slow");
  const body = new TransformStream<Uint8Array, Uint8Array>();
  const writer = body.writable.getWriter();
  const response = fetch(location, { method: "PATCH", body: body.readable });
  await writer.write(new Uint8Array(BEGINNING));
  // Written here is not yet received there, and nothing over HTTP tells the difference.
  const file = `${server.dataDir}/registry/uploads/${new URL(location).pathname.split("/").at(-1)}`;
  await eventually("some of it is there", async () => (await Deno.stat(file)).size > 0);
  return { response, writer };
}

async function status(server: Server, path: string): Promise<number> {
  const response = await fetch(server.url + path);
  await response.body?.cancel();
  return response.status;
}

const draining = (server: Server) =>
  eventually("it drains", async () => await status(server, "/readyz") === 503);

e2eTest("serve: SIGTERM turns readiness off and lets requests in flight end", {}, async () => {
  await using server = await startServer(PLAIN);
  const { response, writer } = await openPatch(server);
  const stopped = server.stop();
  await draining(server);
  assert.equal(await status(server, "/healthz"), 200);
  assert.equal(await status(server, "/v2/"), 503);
  await writer.write(new Uint8Array(1000));
  await writer.close();
  const patched = await response;
  assert.equal(patched.status, 202);
  assert.equal(patched.headers.get("range"), `0-${BEGINNING + 999}`);
  await patched.body?.cancel();
  assert.deepEqual(await stopped, { code: 0, signal: null });
});

e2eTest("serve: a second signal does not wait for requests in flight", {}, async () => {
  await using server = await startServer(PLAIN);
  const { response, writer } = await openPatch(server);
  const cut = assert.rejects(response);
  const stopped = server.stop();
  await draining(server);
  const asked = Date.now();
  Deno.kill(server.pid, "SIGTERM");
  assert.equal((await stopped).code, 0);
  // Those in flight would have had 30 s.
  assert(Date.now() - asked < 25_000);
  await cut;
  await writer.abort().catch(() => {/* its request is gone */});
});

e2eTest("serve: an idle server ends at once, connections kept alive or not", {}, async () => {
  await using server = await startServer(PLAIN);
  await using _idle = {
    connection: await Deno.connect({ hostname: "127.0.0.1", port: server.port }),
    [Symbol.asyncDispose]() {
      return Promise.resolve(this.connection.close());
    },
  };
  assert.equal(await status(server, "/healthz"), 200);
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  await server.logged(/"stopped"/);
  assert.doesNotMatch(server.log(), /in flight/);
});

e2eTest("serve: a second server on one data directory names the first", {}, async () => {
  await using server = await startServer(PLAIN);
  const args = ["serve", "--addr", `127.0.0.1:${freePort()}`, "--data-dir", server.dataDir];
  const second = await svc(args);
  assert.equal(second.code, 1);
  assert.match(second.stderr, new RegExp(`process id ${server.pid} is using it`));
  assert.equal(await status(server, "/readyz"), 200);
  await server.kill9();
  await server.restart();
  assert.equal(await status(server, "/readyz"), 200);
});

e2eTest("serve: a port in use", {}, () =>
  withDir(async (dir) => {
    await using server = await startServer(PLAIN);
    const address = `127.0.0.1:${server.port}`;
    const second = await svc(["serve", "--addr", address, "--data-dir", `${dir}/data`]);
    assert.equal(second.code, 1);
    assert.match(second.stderr, new RegExp(`Cannot bind ${address}: address in use`));
    assert.match(second.stderr, /set SVC_ADDR or stop the other server/);
    // What the start had opened is closed again: the directory is nobody's.
    await using third = await startServer({ ...PLAIN, dataDir: `${dir}/data` });
    const bytes = new TextEncoder().encode("kept");
    assert.equal((await pushBlob(third, "kept", bytes)).status, 201);
    await third.restart();
    assert.equal(await status(third, `/v2/kept/blobs/${digestOf(bytes)}`), 200);
  }));

e2eTest("serve: what cannot be read or is not in this build", {}, () =>
  withDir(async (dir) => {
    const refused = async (
      args: string[],
      env: Record<string, string>,
      code: number,
      message: RegExp,
    ) => {
      const result = await svc(["serve", "--data-dir", `${dir}/data`, ...args], { env });
      assert.equal(result.code, code, result.stderr);
      assert.match(result.stderr, message);
      assert.equal(result.stdout, "");
    };
    await refused(["--data-dri", "x"], {}, 2, /unknown flag; did you mean --data-dir\?/);
    await refused(["--addr", "nonsense"], {}, 2, /--addr: "nonsense" is not an address/);
    await refused([], { SVC_DEPLOY_BACKEND: "bar" }, 2, /"bar"; did you mean bare\?/);
    await refused([], { SVC_HOST_NETWORK: "yes" }, 2, /SVC_HOST_NETWORK/);
    await refused([], { SVC_GC_INTERVAL: "0s" }, 2, /SVC_GC_INTERVAL/);
    await refused(
      [],
      { SVC_CARETAKER_TOKEN: "t" },
      2,
      /a cluster.s caretaker is not in this build yet/,
    );
    await refused(["--tls-cert", "x.pem"], {}, 2, /--tls-key is not set/);
    await refused(["--storage", "s3://b"], {}, 2, /not a bucket's name/);
    await refused(["--storage", "gs://b"], {}, 2, /cloudblob/);
    const exclusive = { SVC_REGISTRY_SOURCE: "host-native", SVC_REGISTRY_MIRROR: "reg.example" };
    await refused([], exclusive, 2, /exclude each other/);
    await assert.rejects(Deno.stat(`${dir}/data`), Deno.errors.NotFound);
  }));

e2eTest("serve: a data directory that is not ours is left alone", {}, () =>
  withDir(async (dir) => {
    await Deno.writeTextFile(`${dir}/thesis.txt`, "mine");
    const result = await svc(["serve", "--addr", "127.0.0.1:0", "--data-dir", dir]);
    assert.equal(result.code, 1);
    assert.match(result.stderr, /it holds other files \(thesis\.txt\) and svc did not make it/);
    assert.deepEqual([...Deno.readDirSync(dir)].map((entry) => entry.name), ["thesis.txt"]);
  }));

e2eTest("serve: logs are JSON lines, with the level that was asked for", {}, async () => {
  await using server = await startServer({
    env: { ...PLAIN.env, SVC_LOG_LEVEL: "debug", SVC_LOGLEVEL: "info" },
  });
  await status(server, "/v2/_catalog");
  assert.equal((await server.stop()).code, 0);
  await server.logged(/"stopped"/);
  const lines = server.log().trim().split("\n").map((line) => JSON.parse(line));
  for (const line of lines) {
    assert.equal(typeof line.msg, "string");
    assert.match(line.level, /^(debug|info|warn|error)$/);
    assert(!Number.isNaN(Date.parse(line.time)));
  }
  assert(lines.some((l) => l.level === "warn" && /did you mean SVC_LOG_LEVEL\?/.test(l.msg)));
  assert(lines.some((l) => l.path === "/v2/_catalog" && l.status === 200 && l.level === "info"));
  assert(lines.some((l) => l.path === "/readyz" && l.level === "debug"));
  assert(lines.some((l) => l.msg === `listening on 127.0.0.1:${server.port}`));
  assert.equal(lines.at(-1).msg, "stopped");
});

e2eTest(
  "serve: a full disk is 507, and nothing half-written is left",
  { root: true, commands: ["mount", "umount"] },
  () =>
    withDir(async (dir) => {
      await runTool("mount", ["-t", "tmpfs", "-o", "size=8m", "svc-e2e", dir]);
      try {
        await using server = await startServer({ ...PLAIN, dataDir: dir });
        const small = crypto.getRandomValues(new Uint8Array(60_000));
        const kept = await pushBlob(server, "a", small);
        assert.equal(kept.status, 201);
        await kept.body?.cancel();
        const big = new Uint8Array(16 * 1024 * 1024).fill(7);
        const refused = await pushBlob(server, "a", big);
        assert.equal(refused.status, 507);
        const { errors } = await refused.json();
        assert.match(errors[0].message, /no space|disk|full/i);
        assert.equal(await status(server, `/v2/a/blobs/${digestOf(big)}`), 404);
        const again = await fetch(`${server.url}/v2/a/blobs/${digestOf(small)}`);
        assert.deepEqual(new Uint8Array(await again.arrayBuffer()), small);
        // What the failed upload held is free again.
        const other = new Uint8Array(1_000_000).fill(9);
        const later = await pushBlob(server, "a", other);
        assert.equal(later.status, 201, await later.text());
        assert.equal(await status(server, "/readyz"), 200);
      } finally {
        await runTool("umount", [dir]);
      }
    }),
);

e2eTest(
  "serve: a build context over the limit is 413, and nothing of it is kept",
  { root: true, commands: ["runc"] },
  () =>
    withDir(async (dir) => {
      await using server = await startServer({
        env: { ...PLAIN.env, SVC_MAX_BUILD_CONTEXT_BYTES: "64k" },
      });
      await Deno.writeTextFile(`${dir}/Dockerfile`, "FROM scratch\nCOPY big /\n");
      await Deno.writeFile(`${dir}/big`, new Uint8Array(2 * 1024 * 1024));
      const built = await server.svc(["build", "-t", "big:v1", dir]);
      assert.equal(built.code, 1);
      assert.match(built.stderr, /Cannot take the build context: it has more than 64\.0 KiB/);
      assert.match(built.stderr, /SVC_MAX_BUILD_CONTEXT_BYTES/);
      const kept = () => [...Deno.readDirSync(`${server.dataDir}/build/contexts`)];
      await eventually("nothing is kept", () => kept().length === 0);
      assert.equal(await status(server, "/v2/big/manifests/v1"), 404);
    }),
);

e2eTest(
  "serve: help lists the options",
  {},
  async () => {
    const help = await svc(["serve", "--help"]);
    assert.equal(help.code, 0);
    assert.match(help.stdout, /--data-dir DIR/);
    assert.match(help.stdout, /SVC_DEPLOY_BACKEND/);
    assert.match(help.stdout, /not in this build yet/);
  },
);
