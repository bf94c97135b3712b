/** A server whose registry is the host's containerd: what people's clients push there is an image of containerd's. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type ContainerdPeer, startContainerd } from "../peers/containerd.ts";
import { removeServerData } from "../peers/cleanup.ts";
import { withContext } from "./build_helpers.ts";
import {
  baseImage,
  e2eTest,
  requireTools,
  runTool,
  type Server,
  type ServerOptions,
  startServer,
} from "./harness.ts";
import { clientTests } from "./registry_clients.ts";

const NEEDS = {
  root: true,
  commands: ["containerd", "ctr", "runc", "skopeo"],
  files: ["/bin/busybox"],
};
const { ignore } = requireTools(NEEDS);

let home: string;
let peer: ContainerdPeer;
let namespaces = 0;

Deno.test.beforeAll(async () => {
  if (ignore) return;
  home = await Deno.makeTempDir({ prefix: "svc-ctd-view-" });
  peer = await startContainerd(home);
});

Deno.test.afterAll(async () => {
  if (ignore) return;
  await peer[Symbol.asyncDispose]();
  await Deno.remove(home, { recursive: true });
});

const serve = (namespace: string, { env, ...options }: ServerOptions = {}) =>
  startServer({
    env: {
      SVC_DEPLOY_BACKEND: "containerd",
      SVC_CONTAINERD_ADDRESS: peer.address,
      SVC_CONTAINERD_NAMESPACE: namespace,
      ...env,
    },
    ...options,
  });

clientTests("containerd's registry: ", NEEDS, () => serve(`svc-view-${namespaces++}`));

const ctr = async (namespace: string, ...args: string[]) =>
  (await runTool("ctr", ["-a", peer.address, "-n", namespace, ...args])).stdout;

const named = async (namespace: string) =>
  (await ctr(namespace, "images", "ls", "-q")).trim().split("\n").sort();

/** The content that containerd has, in bytes. */
async function contentOf(namespace: string): Promise<number> {
  const digests = (await ctr(namespace, "content", "ls", "-q")).trim().split("\n");
  const blobs = join(home, "root/io.containerd.content.v1.content/blobs/sha256");
  const sizes = digests.map((digest) => Deno.statSync(join(blobs, digest.slice(7))).size);
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function digestOf(server: Server, name: string): Promise<string | null> {
  const accept = "application/vnd.oci.image.manifest.v1+json";
  const url = `${server.url}/v2/${name.replace(":", "/manifests/")}`;
  const answer = await fetch(url, { method: "HEAD", headers: { accept } });
  assert.equal(answer.status, 200, name);
  return answer.headers.get("docker-content-digest");
}

e2eTest(
  "containerd's registry: ctr pulls, pushes and runs; what is pushed deploys",
  NEEDS,
  async () => {
    const namespace = "svc-view-ctr";
    await using server = await serve(namespace);
    const { digest } = await baseImage(server, "app:v1");
    const name = `localhost:${server.port}/app:v1`;
    assert.deepEqual(await named(namespace), [name]);
    assert.match((await server.svc(["info"])).stdout, /Registry mode: host-native/);
    // Another namespace is another client.
    const other = async (...args: string[]) => await ctr("svc-view-other", ...args);
    await other("images", "pull", "--plain-http", "--snapshotter", "native", name);
    await other("images", "tag", name, `localhost:${server.port}/copy:v1`);
    await other("images", "push", "--plain-http", `localhost:${server.port}/copy:v1`);
    assert.equal(await digestOf(server, "copy:v1"), digest);
    const check = await ctr(namespace, "images", "check", `name==${name}`);
    assert.match(check, / complete \((\d+)\/\1\) /);
    for (const image of ["app:v1", name, `${server.host}/copy:v1`]) {
      const deployed = await server.svc(["deploy", "--name", "web", "--image", image]);
      assert.equal(deployed.code, 0, deployed.stderr);
    }
  },
);

const DOCKERFILE = `FROM base:1
RUN dd if=/dev/urandom of=/big bs=1M count=3
`;

for (const worker of ["containerd", "runc"]) {
  e2eTest(`containerd's registry: a build of the ${worker} worker is there`, NEEDS, async () => {
    const namespace = `svc-view-build-${worker}`;
    await using server = await serve(namespace, { env: { SVC_BUILD_WORKER: worker } });
    await baseImage(server, "base:1");
    await withContext({ Dockerfile: DOCKERFILE }, async (directory) => {
      const built = await server.svc(["build", "-t", "app:v1", directory]);
      assert.equal(built.code, 0, built.stderr);
    });
    const digest = await digestOf(server, "app:v1");
    const name = `localhost:${server.port}/app:v1`;
    assert.ok((await ctr(namespace, "images", "ls", `name==${name}`)).includes(digest!));
    const bytes = await contentOf(namespace);
    assert.ok(bytes > 3 << 20 && bytes < 6 << 20, `${bytes} bytes: the layer is there once`);
    const deployed = await server.svc([
      "deploy",
      "--name",
      "web",
      "--image",
      "app:v1",
    ]);
    assert.equal(deployed.code, 0, deployed.stderr);
  });
}

e2eTest(
  "containerd's registry: a server killed in the middle of a push, then the rest",
  NEEDS,
  async () => {
    const namespace = "svc-view-kill";
    await using server = await serve(namespace);
    const data = crypto.getRandomValues(new Uint8Array(60_000));
    const sha = new Uint8Array(await crypto.subtle.digest("SHA-256", data)).toHex();
    const started = await fetch(`${server.url}/v2/app/blobs/uploads/`, { method: "POST" });
    const location = server.url + started.headers.get("location");
    await started.body?.cancel();
    const patch = await fetch(location, { method: "PATCH", body: data.slice(0, 40_000) });
    assert.equal(patch.status, 202, await patch.text());
    await server.kill9();
    await server.restart();
    const there = await fetch(location);
    assert.equal(there.headers.get("range"), "0-39999");
    await peer.kill9();
    await peer.start();
    const done = await fetch(`${location}?digest=sha256:${sha}`, {
      method: "PUT",
      body: data.slice(40_000),
      headers: { "content-range": "40000-59999" },
    });
    assert.equal(done.status, 201, await done.text());
    const blob = await fetch(`${server.url}/v2/app/blobs/sha256:${sha}`);
    assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), data);
  },
);

e2eTest("containerd's registry: off, and in union with a store", NEEDS, async () => {
  const namespace = "svc-view-modes";
  const dataDir = await Deno.makeTempDir({ prefix: "svc-ctd-view-" });
  try {
    {
      await using server = await serve(namespace);
      await baseImage(server, "theirs:v1");
    }
    {
      await using server = await serve(namespace, { args: ["--storage", join(dataDir, "store")] });
      await baseImage(server, "ours:v1");
      assert.match((await server.svc(["info"])).stdout, /Registry mode: union/);
      assert.equal((await named(namespace)).length, 1, "a push goes to the store");
    }
    await using server = await serve(namespace, { env: { SVC_REGISTRY_SOURCE: "off" } });
    await baseImage(server, "own:v1");
    assert.match((await server.svc(["info"])).stdout, /Registry mode: store/);
    assert.equal((await named(namespace)).length, 1);
  } finally {
    await removeServerData(dataDir);
  }
});
