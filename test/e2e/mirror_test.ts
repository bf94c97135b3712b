/** The mirror with real registries behind it and real clients in front. */
import assert from "node:assert/strict";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { eventually } from "../waits.ts";
import { baseImage, e2eTest, EXECUTABLE, runTool, type Server, startServer } from "./harness.ts";

const SKOPEO = ["--insecure-policy"];
const FILES = [EXECUTABLE];

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-mirror-" });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Pulls into an OCI layout; gives the manifest's digest. */
async function pull(name: string): Promise<string> {
  let digest = "";
  await withFolder(async (folder) => {
    const target = `oci:${folder}:x`;
    const source = `docker://${name}`;
    await runTool("skopeo", [...SKOPEO, "copy", "-q", "--src-tls-verify=false", source, target]);
    const seen = await runTool("skopeo", [...SKOPEO, "inspect", "--format", "{{.Digest}}", target]);
    digest = seen.stdout.trim();
  });
  return digest;
}

async function copy(source: string, target: string): Promise<void> {
  const plain = ["--src-tls-verify=false", "--dest-tls-verify=false"];
  await runTool("skopeo", [...SKOPEO, "copy", "-q", ...plain, source, `docker://${target}`]);
}

const requests = (server: Server, pattern: RegExp) =>
  server.log().split("\n").filter((line) => pattern.test(line)).length;

const mirrorOf = (upstream: string, env: Record<string, string> = {}) =>
  startServer({ env: { SVC_REGISTRY_MIRROR: upstream, ...env } });

const head = async (server: Server, path: string) => {
  const response = await fetch(`${server.url}${path}`, { method: "HEAD" });
  await response.body?.cancel();
  return response;
};

e2eTest("mirror: skopeo pulls through svc from svc, and goes on without the upstream", {
  commands: ["skopeo"],
  files: FILES,
}, async () => {
  await using upstream = await startServer();
  await using mirror = await mirrorOf(`http://${upstream.host}`);
  const { digest } = await baseImage(upstream, "team/base:v1");
  assert.equal(await pull(`${mirror.host}/team/base:v1`), digest);
  assert.equal(await pull(`${mirror.host}/team/base:v1`), digest);
  await upstream.logged(/"GET".*\/blobs\//, 2);
  const catalog = await (await fetch(`${mirror.url}/v2/_catalog`)).json();
  assert.deepEqual(catalog.repositories, ["team/base"]);

  await upstream.stop();
  await upstream.logged(/"stopped"/);
  assert.equal(requests(upstream, /"GET".*\/blobs\//), 2, "config and layer, once each");
  await mirror.restart();
  assert.equal(await pull(`${mirror.host}/team/base:v1`), digest);
  const stale = await head(mirror, "/v2/team/base/manifests/v1");
  assert.equal(stale.headers.get("x-svc-stale"), "true");
  assert.match(stale.headers.get("warning")!, /^110 /);
  // Pushes need no upstream, and what is pushed is served as it is.
  await copy(`docker://${mirror.host}/team/base:v1`, `${mirror.host}/team/own:v1`);
  await copy(`docker://${mirror.host}/team/base:v1`, `${mirror.host}/team/base:mine`);
  const own = await head(mirror, "/v2/team/base/manifests/mine");
  assert.equal(own.headers.get("x-svc-stale"), null);
  assert.equal(own.headers.get("docker-content-digest"), digest);
});

e2eTest("mirror: several pulls at once fetch a blob once", { files: FILES }, async () => {
  await using upstream = await startServer();
  await using mirror = await mirrorOf(`up=http://${upstream.host}`);
  const bytes = new Uint8Array(24 * 1024 * 1024);
  for (let at = 0; at < bytes.length; at += 65536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65536));
  }
  const hex = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
  const pushed = await fetch(`${upstream.url}/v2/big/blobs/uploads/?digest=sha256:${hex}`, {
    method: "POST",
    body: bytes,
  });
  await pushed.body?.cancel();
  assert.equal(pushed.status, 201);
  const path = `${mirror.url}/v2/up/big/blobs/sha256:${hex}`;
  // One client leaves at the first byte, the others read to the end.
  const abort = new AbortController();
  const left = await fetch(path, { signal: abort.signal });
  await left.body!.getReader().read();
  abort.abort();
  const digests = await Promise.all(Array.from({ length: 6 }, async () => {
    const response = await fetch(path);
    const body = await response.arrayBuffer();
    return new Uint8Array(await crypto.subtle.digest("SHA-256", body)).toHex();
  }));
  assert.deepEqual(new Set(digests), new Set([hex]));
  await eventually(
    "the spool is empty",
    () => [...Deno.readDirSync(`${mirror.dataDir}/mirror`)].length === 0,
  );
  await upstream.stop();
  await upstream.logged(/"stopped"/);
  assert.equal(requests(upstream, /"GET".*\/blobs\//), 1);
});

e2eTest("mirror: builds and names of our own host come through it", {
  commands: ["skopeo", "runc"],
  root: true,
  files: FILES,
}, async () => {
  await using upstream = await startServer();
  await using mirror = await mirrorOf(`http://${upstream.host}`);
  await baseImage(upstream, "team/base:v1");
  await withFolder(async (folder) => {
    await Deno.writeTextFile(
      `${folder}/Dockerfile`,
      `FROM ${mirror.host}/team/base:v1\nRUN echo built > /made\n`,
    );
    const built = await mirror.svc(["build", "-t", "team/app:v1", folder]);
    assert.equal(built.code, 0, built.stderr);
  });
  await upstream.stop();
  assert.match(await pull(`${mirror.host}/team/app:v1`), /^sha256:/);
});

e2eTest("mirror: the distribution project's registry as upstream, with the cache off", {
  commands: ["skopeo", "docker-registry"],
  files: FILES,
}, async () => {
  await using upstream = await startDockerRegistry();
  await using caching = await mirrorOf(`hub=http://${upstream.host}`);
  await using straight = await mirrorOf(upstream.host, { SVC_REGISTRY_MIRROR_CACHE: "off" });
  let digest = "";
  await withFolder(async (folder) => {
    digest = await writeBaseLayout(folder, "base");
    await copy(`oci:${folder}:base`, `${upstream.host}/org/base:v1`);
  });
  assert.equal(await pull(`${caching.host}/hub/org/base:v1`), digest);
  assert.equal(await pull(`${straight.host}/org/base:v1`), digest);
  const tags = await (await fetch(`${caching.url}/v2/hub/org/base/tags/list`)).json();
  assert.deepEqual(tags, { name: "hub/org/base", tags: ["v1"] });
  const catalog = async (server: Server) =>
    (await (await fetch(`${server.url}/v2/_catalog`)).json()).repositories;
  assert.deepEqual(await catalog(caching), ["hub/org/base"]);
  assert.deepEqual(await catalog(straight), []);
});
