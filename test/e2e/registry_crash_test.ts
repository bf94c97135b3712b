/** The server is killed with -9 in mid-upload: what it acknowledged is there, and the upload goes on. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { baseImage, e2eTest, type Server, startServer } from "./harness.ts";

const MIB = 1024 * 1024;

/** 24 MiB that do not repeat. */
function blobBytes(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(24 * MIB);
  for (let at = 0; at < bytes.length; at += 65536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65536));
  }
  return bytes;
}

async function offsetOf(server: Server, location: string): Promise<number> {
  const response = await fetch(server.url + location);
  assert.equal(response.status, 204);
  return Number(/^0-(\d+)$/.exec(response.headers.get("range")!)![1]) + 1;
}

async function patch(server: Server, location: string, body: BodyInit, start: number, end: number) {
  const response = await fetch(server.url + location, {
    method: "PATCH",
    body,
    headers: { "content-range": `${start}-${end}`, "content-type": "application/octet-stream" },
  });
  await response.body?.cancel();
  return response;
}

e2eTest("an upload goes on after kill -9, from the acknowledged offset", {
  commands: ["skopeo"],
  files: ["/bin/busybox"],
}, async () => {
  await using server = await startServer();
  const pushed = await baseImage(server, "kept/image:v1");
  const bytes = blobBytes();
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const begun = await fetch(`${server.url}/v2/big/blob/blobs/uploads/`, { method: "POST" });
  await begun.body?.cancel();
  assert.equal(begun.status, 202);
  const location = begun.headers.get("location")!;
  const first = await patch(server, location, bytes.subarray(0, 8 * MIB), 0, 8 * MIB - 1);
  assert.equal(first.status, 202);
  assert.equal(first.headers.get("range"), `0-${8 * MIB - 1}`);

  // A second chunk is under way, and the server has some of it, when the power goes.
  let at = 8 * MIB;
  const sent = Promise.withResolvers<void>();
  const endless = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (at >= 12 * MIB) {
        sent.resolve();
        return await new Promise(() => {});
      }
      controller.enqueue(bytes.subarray(at, at += 64 * 1024));
      await Promise.resolve();
    },
  });
  const cut = assert.rejects(patch(server, location, endless, 8 * MIB, bytes.length - 1));
  await sent.promise;
  await new Promise((resolve) => setTimeout(resolve, 100));
  await server.kill9();
  await cut;
  await server.restart();

  const offset = await offsetOf(server, location);
  assert.ok(offset >= 8 * MIB && offset <= 12 * MIB, `offset ${offset}`);
  const early = await patch(server, location, bytes.subarray(0, MIB), 0, MIB - 1);
  assert.equal(early.status, 416);
  assert.equal(early.headers.get("range"), `0-${offset - 1}`);
  const rest = await patch(server, location, bytes.subarray(offset), offset, bytes.length - 1);
  assert.equal(rest.status, 202);
  const done = await fetch(`${server.url}${location}?digest=${digest}`, { method: "PUT" });
  assert.equal(done.status, 201, await done.text());

  const blob = await fetch(`${server.url}/v2/big/blob/blobs/${digest}`);
  const back = new Uint8Array(await blob.arrayBuffer());
  assert.equal(`sha256:${createHash("sha256").update(back).digest("hex")}`, digest);
  const image = await fetch(`${server.url}/v2/kept/image/manifests/v1`, { method: "HEAD" });
  assert.equal(image.headers.get("docker-content-digest"), pushed.digest);
});

e2eTest("an acknowledged push survives kill -9 at once", {
  commands: ["skopeo"],
  files: ["/bin/busybox"],
}, async () => {
  await using server = await startServer();
  const pushed = await baseImage(server, "acked/image:v1", { layers: [{ "srv/a": "a" }] });
  await server.kill9();
  await server.restart();
  const manifest = await fetch(`${server.url}/v2/acked/image/manifests/v1`);
  assert.equal(manifest.headers.get("docker-content-digest"), pushed.digest);
  const { layers, config } = await manifest.json();
  for (const { digest, size } of [config, ...layers]) {
    const blob = await fetch(`${server.url}/v2/acked/image/blobs/${digest}`);
    const bytes = new Uint8Array(await blob.arrayBuffer());
    assert.equal(bytes.length, size);
    assert.equal(`sha256:${createHash("sha256").update(bytes).digest("hex")}`, digest);
  }
});
