import assert from "node:assert/strict";
import net from "node:net";
import { SvcError } from "../../base/errors.ts";
import { field, method } from "./method.ts";
import { type GrpcPeer, openPeer } from "./peer.ts";
import { serveCall, type Served, serveGrpc, serveStream } from "./server.ts";

const TEXT = { text: field(1) };
const Echo = method<{ text: string }, { text: string }>("t.T/Echo", TEXT, TEXT);
const Each = method<{ text: string }, { text: string }>("t.T/Each", TEXT, TEXT);
const Never = method<{ text: string }, { text: string }>("t.T/Never", TEXT, TEXT);
const Unknown = method<{ text: string }, { text: string }>("t.T/Unknown", TEXT, TEXT);

/** Two ends of a connection: `served` on one, a peer on the other. */
function grpcTest(
  title: string,
  served: readonly Served[],
  work: (peer: GrpcPeer, end: AbortController) => Promise<void>,
) {
  Deno.test({
    name: `grpc: ${title}`,
    ignore: Deno.build.os === "windows",
    // Sockets of node close in a later turn of the event loop.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-grpc-" });
      const end = new AbortController();
      let serving: Promise<void> | undefined;
      const listener = net.createServer((socket) => {
        serving = serveGrpc(socket, served, end.signal);
      });
      await new Promise<void>((resolve) => listener.listen(`${folder}/s`, resolve));
      try {
        const socket = net.connect(`${folder}/s`);
        await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
        using peer = openPeer(socket);
        await work(peer, end);
      } finally {
        end.abort();
        await serving;
        listener.close();
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

async function failure(work: Promise<unknown>): Promise<SvcError> {
  const error = await work.then(() => undefined, (error) => error);
  assert.ok(error instanceof SvcError, String(error));
  return error;
}

grpcTest("one message, one answer; metadata goes along; errors are statuses", [
  serveCall(Echo, ({ text }, { metadata }) => {
    if (text === "bad") throw new SvcError("not_found", "Cannot echo: größer");
    return { text: `${text} ${metadata["x-many"]}` };
  }),
], async (peer) => {
  const metadata = { "x-many": ["a", "b"] };
  assert.deepEqual(await peer.call(Echo, { text: "hi" }, "Cannot", { metadata }), {
    text: "hi a, b",
  });
  const missing = await failure(peer.call(Echo, { text: "bad" }, "Cannot try"));
  assert.deepEqual([missing.code, missing.message], [
    "not_found",
    "Cannot try: Cannot echo: größer",
  ]);
  const unknown = await failure(peer.call(Unknown, { text: "" }, "Cannot try"));
  assert.equal(unknown.code, "unsupported");
  assert.match(unknown.message, /t\.T\/Unknown/);
});

grpcTest("messages both ways, larger than a window", [
  serveStream(Each, async ({ messages, send }) => {
    for await (const { text } of messages) await send({ text: text + text });
  }),
], async (peer) => {
  using call = peer.open(Each, "Cannot");
  const long = "x".repeat(3 << 20);
  for (const text of ["a", long]) {
    await call.send({ text });
    assert.equal((await call.receive())?.text.length, text.length * 2);
  }
  call.end();
  assert.equal(await call.receive(), undefined);
});

const left = Promise.withResolvers<void>();
let begun = Promise.withResolvers<void>();
grpcTest("a caller that cancels, and a server that ends", [
  serveStream(Never, ({ signal }) => {
    begun.resolve();
    signal.addEventListener("abort", () => left.resolve());
    return new Promise(() => {});
  }),
], async (peer, end) => {
  const cancel = new AbortController();
  {
    using call = peer.open(Never, "Cannot", { signal: cancel.signal });
    await call.send({ text: "" });
    const received = assert.rejects(call.receive(), { name: "AbortError" });
    await begun.promise;
    cancel.abort();
    await received;
  }
  await left.promise;
  begun = Promise.withResolvers();
  const waiting = failure(peer.call(Never, { text: "" }, "Cannot wait"));
  await begun.promise;
  end.abort();
  assert.equal((await waiting).code, "unavailable");
  await peer.closed;
});
