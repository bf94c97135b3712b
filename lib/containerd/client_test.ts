/** The client against a server that answers as it is told. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import http2 from "node:http2";
import net from "node:net";
import { SvcError } from "../base/errors.ts";
import { Snapshots, Version } from "./api.ts";
import { ContainerdClient } from "./client.ts";
import { encodeMessage } from "../wire/grpc/protobuf.ts";

type Answer = (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => void;

function frame(bytes: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Sends `parts` one by one and ends with gRPC's status. */
function answer(
  stream: http2.ServerHttp2Stream,
  parts: Uint8Array[],
  status: number,
  message = "",
): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => {
    stream.sendTrailers({ "grpc-status": String(status), "grpc-message": message });
  });
  for (const part of parts) stream.write(part);
  stream.end();
}

function clientTest(
  title: string,
  respond: Answer,
  work: (client: ContainerdClient) => Promise<void>,
) {
  Deno.test({
    name: `containerd client: ${title}`,
    ignore: Deno.build.os === "windows",
    // The server's own sockets close in a later turn of the event loop.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-client-" });
      const address = `${folder}/socket`;
      const server = http2.createServer();
      server.on("stream", (stream, headers) => {
        stream.on("error", () => {/* the client left */});
        // The types name what both sides share.
        respond(stream as http2.ServerHttp2Stream, headers);
      });
      await new Promise<void>((resolve) => server.listen(address, resolve));
      try {
        await using client = new ContainerdClient({ address, namespace: "ours" });
        await work(client);
      } finally {
        await new Promise<void>((resolve) => server.close(() => resolve()));
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

async function failure(work: Promise<unknown>): Promise<SvcError> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof SvcError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "the call did not fail" });
}

clientTest(
  "the namespace goes along; messages may come in any pieces",
  (stream, headers) => {
    assert.equal(headers["containerd-namespace"], "ours");
    assert.equal(headers[":path"], "/containerd.services.snapshots.v1.Snapshots/List");
    const info = (name: string) =>
      frame(encodeMessage(Snapshots.list.output, { info: [{ name, kind: 3 }] }));
    const whole = Buffer.concat([info("a"), info("b".repeat(300))]);
    answer(stream, [whole.subarray(0, 3), whole.subarray(3, 40), whole.subarray(40)], 0);
  },
  async (client) => {
    const names: string[] = [];
    for await (const { info } of client.stream(Snapshots.list, { snapshotter: "x" }, "Cannot")) {
      names.push(...info.map(({ name }) => name));
    }
    assert.deepEqual(names, ["a", "b".repeat(300)]);
  },
);

clientTest(
  "statuses become errors",
  (stream, headers) => {
    if (headers[":path"]!.endsWith("/Remove")) answer(stream, [], 5, "no%20such snapshot");
    else if (headers[":path"]!.endsWith("/Commit")) answer(stream, [], 2, "disk on fire");
    else answer(stream, [], 0);
  },
  async (client) => {
    const missing = await failure(
      client.call(Snapshots.remove, { snapshotter: "x", key: "y" }, "Cannot remove it"),
    );
    assert.deepEqual(
      [missing.code, missing.message],
      ["not_found", "Cannot remove it: no such snapshot"],
    );
    const input = { snapshotter: "x", name: "n", key: "y" };
    assert.equal((await failure(client.call(Snapshots.commit, input, "Cannot"))).code, "internal");
    assert.equal((await failure(client.call(Version, {}, "Cannot"))).code, "upstream_failed");
  },
);

let unanswered = () => {};

clientTest(
  "a connection that breaks, and one that is not answered",
  (stream, headers) => {
    if (headers[":path"]!.endsWith("/Version")) stream.session!.destroy();
    else unanswered();
  },
  async (client) => {
    assert.equal((await failure(client.call(Version, {}, "Cannot ask"))).code, "unavailable");
    const abort = new AbortController();
    const asked = client.call(
      Snapshots.mounts,
      { snapshotter: "x", key: "y" },
      "Cannot",
      { signal: abort.signal },
    );
    abort.abort();
    await assert.rejects(asked, { name: "AbortError" });
    const late = new AbortController();
    unanswered = () => late.abort();
    const sent = client.call(
      Snapshots.mounts,
      { snapshotter: "x", key: "y" },
      "Cannot",
      { signal: late.signal },
    );
    await assert.rejects(sent, { name: "AbortError" });
  },
);

Deno.test({
  name: "containerd client: no socket, and one that nobody listens on",
  ignore: Deno.build.os === "windows",
}, async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-client-" });
  try {
    const ask = async (address: string) => {
      await using client = new ContainerdClient({ address, namespace: "ours" });
      return await failure(client.call(Version, {}, "Cannot ask"));
    };
    const missing = await ask(`${folder}/none`);
    assert.equal(missing.code, "prerequisite_missing");
    assert.match(missing.help, /SVC_CONTAINERD_ADDRESS/);
    // A listener's file outlives a listener that was killed: a link to its socket does the same here.
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(`${folder}/socket`, resolve));
    await Deno.link(`${folder}/socket`, `${folder}/stale`);
    await new Promise<void>((resolve) => server.close(() => resolve()));
    assert.match((await ask(`${folder}/stale`)).message, /stale: nothing listens there$/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
