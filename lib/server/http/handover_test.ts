import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import { listen } from "../listener.ts";

const hash = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** A request with a chunked body: chunks of any size, as a client might make them. */
function chunked(body: Uint8Array): Buffer {
  const parts = [Buffer.from("POST /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")];
  for (let at = 0; at < body.length;) {
    const size = Math.min(body.length - at, 1 + Math.floor(Math.random() * 70_000));
    parts.push(Buffer.from(`${size.toString(16)}\r\n`), Buffer.from(body.subarray(at, at + size)));
    parts.push(Buffer.from("\r\n"));
    at += size;
  }
  parts.push(Buffer.from("0\r\n\r\n"));
  return Buffer.concat(parts);
}

/** Sends in pieces with turns of the event loop between them; resolves with all that came back. */
function send(port: number, pieces: Buffer[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => {
      const next = () => {
        const piece = pieces.shift();
        if (piece === undefined) return;
        socket.write(piece);
        setImmediate(next);
      };
      next();
    });
    let answer = "";
    socket.on("data", (bytes: Buffer) => {
      answer += bytes.toString("latin1");
      if (/\r\n\r\n[0-9a-f]{64}$/.test(answer) || !answer.startsWith("HTTP/1.1 200")) {
        socket.destroy();
        resolve(answer);
      }
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(answer));
  });
}

function* pieces(bytes: Buffer, way: number): Generator<Buffer> {
  if (way === 0) return yield bytes;
  for (let at = 0; at < bytes.length;) {
    const size = 1 + Math.floor(Math.random() * (way === 1 && at === 0 ? 20 : 200_000));
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

Deno.test("listener: bodies arrive whole however their bytes come", async () => {
  await using cleanup = new AsyncDisposableStack();
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, async (request) => {
    const whole = createHash("sha256");
    for await (const chunk of request.body!) whole.update(chunk);
    return new Response(whole.digest("hex"), { headers: { "content-length": "64" } });
  });
  cleanup.defer(() => listener.close());
  let count = 0;
  const client = async () => {
    while (count < 600) {
      const way = count++ % 3;
      const body = randomBytes(1 + Math.floor(Math.random() * 1_000_000));
      const answer = await send(listener.address.port, [...pieces(chunked(body), way)]);
      assert.ok(answer.startsWith("HTTP/1.1 200"), answer.slice(0, 60));
      assert.equal(answer.slice(-64), hash(body));
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
});
