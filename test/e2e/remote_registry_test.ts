/** The client of other registries against real ones: the distribution project's, and svc itself. */
import assert from "node:assert/strict";
import { SvcError } from "../../lib/base/errors.ts";
import { silent } from "../../lib/base/log.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { type Manifest, MEDIA } from "../../lib/oci/types.ts";
import type { Credentials } from "../../lib/remote/auth.ts";
import { createRemoteRegistry, type RemoteRegistry } from "../../lib/remote/registry.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { e2eTest, EXECUTABLE, runTool, startServer } from "./harness.ts";

const connect = (host: string, credentials?: Credentials) =>
  createRemoteRegistry({
    host,
    userAgent: "svc-e2e",
    log: silent,
    credentials: () => Promise.resolve(credentials),
  });

const streamOf = (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes]).stream();

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const parts = await Array.fromAsync(stream);
  return new Uint8Array(await new Blob(parts as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

/** Larger than two pieces of an upload. */
function layer(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(20 * 1024 * 1024);
  for (let at = 0; at < bytes.length; at += 65536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65536));
  }
  return bytes;
}

/** Everything of an image there and back. */
async function roundTrip(remote: RemoteRegistry): Promise<{ digest: string }> {
  const blob = layer();
  const config = new TextEncoder().encode(
    JSON.stringify({
      os: "linux",
      architecture: "amd64",
      rootfs: { type: "layers", diff_ids: [] },
    }),
  );
  const describe = (mediaType: string, bytes: Uint8Array) => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  });
  const manifest: Manifest = {
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: describe(MEDIA.config, config),
    layers: [describe(MEDIA.layerTar, blob)],
  };
  assert.equal(await remote.resolve("a/image", "v1"), undefined);
  assert.equal(await remote.hasBlob("a/image", digestOf(blob)), false);
  assert.equal(await remote.get("a/image", digestOf(blob)), undefined);

  await remote.putBlob("a/image", manifest.layers[0], streamOf(blob));
  await remote.putBlob("a/image", manifest.config, streamOf(config));
  assert.equal(await remote.hasBlob("a/image", digestOf(blob)), true);
  const wrong = { ...manifest.config, digest: digestOf(new Uint8Array([1])) };
  await assert.rejects(remote.putBlob("a/image", wrong, streamOf(config)), {
    code: "digest_invalid",
  });

  const bytes = new TextEncoder().encode(JSON.stringify(manifest));
  const put = await remote.putManifest("a/image", MEDIA.manifest, bytes, ["v2", "v1"]);
  assert.equal(put.digest, digestOf(bytes));
  for (const reference of ["v1", "v2", put.digest]) {
    const found = await remote.resolve("a/image", reference);
    assert.deepEqual(found?.descriptor, put);
    assert.deepEqual(found?.bytes, bytes);
  }
  assert.deepEqual(await Array.fromAsync(remote.tags("a/image")), ["v1", "v2"]);
  assert.deepEqual(await Array.fromAsync(remote.tags("a/image", { after: "v1" })), ["v2"]);
  assert.deepEqual(await Array.fromAsync(remote.tags("no/such")), []);
  assert.deepEqual(await Array.fromAsync(remote.referrers("a/image", put.digest)), []);

  const whole = await remote.get("a/image", digestOf(blob));
  assert.equal(whole?.size, blob.length);
  assert.equal(digestOf(await bytesOf(whole!.stream())), digestOf(blob));
  const part = await remote.get("a/image", digestOf(blob), { range: { start: 100, end: 299 } });
  assert.deepEqual(await bytesOf(part!.stream()), blob.slice(100, 300));

  assert.equal(await remote.mountBlob("b/other", digestOf(blob), "a/image"), true);
  assert.equal(await remote.hasBlob("b/other", digestOf(blob)), true);
  return { digest: put.digest };
}

e2eTest(
  "remote registry: the distribution project's, and skopeo sees the same digest",
  { commands: ["docker-registry", "skopeo"] },
  async () => {
    await using registry = await startDockerRegistry();
    const { digest } = await roundTrip(connect(registry.host));
    const seen = await runTool("skopeo", [
      "--insecure-policy",
      "inspect",
      "--tls-verify=false",
      "--format",
      "{{.Digest}}",
      `docker://${registry.host}/a/image:v1`,
    ]);
    assert.equal(seen.stdout.trim(), digest);
  },
);

e2eTest(
  "remote registry: with a login, and plainly refused without",
  { commands: ["docker-registry"] },
  async () => {
    await using registry = await startDockerRegistry({ login: true });
    await roundTrip(connect(registry.host, { username: "user", password: "secret" }));
    for (const wrong of [undefined, { username: "user", password: "guess" }]) {
      await assert.rejects(
        connect(registry.host, wrong).resolve("a/image", "v1"),
        (error) => error instanceof SvcError && error.code === "unauthorized",
      );
    }
  },
);

e2eTest("remote registry: svc itself", { files: [EXECUTABLE] }, async () => {
  await using server = await startServer();
  await roundTrip(connect(server.host));
});
