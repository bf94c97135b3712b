/** The executable and clients that are gone, many or malicious: what its process holds, and what it logs. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { connect, type Socket } from "node:net";
import { eventually } from "../waits.ts";
import { e2eTest, EXECUTABLE, type Server, startServer } from "./harness.ts";

const FILES = [EXECUTABLE];

async function dial({ port }: Server): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {/* it is cut on purpose */});
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  return socket;
}

const descriptors = ({ pid }: Server) => [...Deno.readDirSync(`/proc/${pid}/fd`)].length;

const requestsOf = (server: Server) => server.lines().filter(({ msg }) => msg === "request");

/** Uploads and downloads that end in the middle; the uploads are then given up. */
async function vanish(server: Server, blob: string, round: string, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, async (_, n) => {
    const id = `${round}-${n}`;
    const started = await fetch(`${server.url}/v2/app/blobs/uploads/`, { method: "POST" });
    const location = started.headers.get("location")!;
    const upload = await dial(server);
    upload.write(
      `PATCH ${location} HTTP/1.1\r\nhost: h\r\nx-request-id: up-${id}\r\n` +
        "content-length: 100000000\r\n\r\n",
    );
    await new Promise((resolve) => upload.write(new Uint8Array(2 * 1024 * 1024), resolve));
    upload.destroy();
    const download = await dial(server);
    download.write(
      `GET /v2/app/blobs/${blob} HTTP/1.1\r\nhost: h\r\nx-request-id: down-${id}\r\n\r\n`,
    );
    await new Promise((resolve) => download.once("data", resolve));
    download.destroy();
    const named = (name: string) => requestsOf(server).find((line) => line.request === name);
    await eventually("both are logged", () => Boolean(named(`up-${id}`) && named(`down-${id}`)));
    for (const name of [`up-${id}`, `down-${id}`]) {
      const line = named(name)!;
      assert.equal(line.aborted, true, name);
      assert.equal(line.repository, "app");
      assert.equal(line.subject, "anonymous");
    }
    assert.equal(named(`down-${id}`)!.digest, blob);
    const gone = await fetch(server.url + location, { method: "DELETE" });
    assert.equal(gone.status, 204);
  }));
}

e2eTest("registry: clients that vanish cost no descriptor, and are logged as such", {
  files: FILES,
}, async () => {
  await using server = await startServer();
  const bytes = new Uint8Array(64 * 1024 * 1024);
  const blob = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const pushed = await fetch(`${server.url}/v2/app/blobs/uploads/?digest=${blob}`, {
    method: "POST",
    body: bytes,
  });
  assert.equal(pushed.status, 201);
  // Threads, pools and connections that are kept are made by the first ones.
  await vanish(server, blob, "first", 12);
  let before = descriptors(server);
  await eventually("the first ones have ended", () => {
    const last = before;
    before = descriptors(server);
    return last === before;
  });
  for (const round of ["a", "b", "c"]) await vanish(server, blob, round, 8);
  // A connection or two may have been added to those that fetch keeps; each of these was a leak of dozens.
  await eventually("descriptors are given back", () => descriptors(server) <= before + 8);
  const response = await fetch(`${server.url}/v2/app/blobs/${blob}`);
  const hash = createHash("sha256").update(new Uint8Array(await response.arrayBuffer()));
  assert.equal(`sha256:${hash.digest("hex")}`, blob);
  const push = requestsOf(server).find(({ method, status }) =>
    method === "POST" && status === 201
  )!;
  assert.deepEqual([push.digest, push.received, push.aborted], [blob, bytes.length, undefined]);
});

e2eTest("registry: manifests without all that they refer to, as SVC_REGISTRY_SPARSE has it", {
  files: FILES,
}, async () => {
  const type = "application/vnd.oci.image.index.v1+json";
  const body = JSON.stringify({
    schemaVersion: 2,
    mediaType: type,
    manifests: [{
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      digest: `sha256:${"a".repeat(64)}`,
      size: 1,
    }],
  });
  for (const [value, status] of [["off", 404], ["index", 201]] as const) {
    await using server = await startServer({ env: { SVC_REGISTRY_SPARSE: value } });
    const response = await fetch(`${server.url}/v2/app/manifests/v1`, {
      method: "PUT",
      body,
      headers: { "content-type": type },
    });
    await response.body?.cancel();
    assert.equal(response.status, status, value);
  }
});
