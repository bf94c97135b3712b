import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { PassThrough } from "node:stream";
import { withoutGoaway } from "./frames_in.ts";

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const [DATA, SETTINGS, GOAWAY] = [0, 4, 7];

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

Deno.test("grpc: all frames but GOAWAY pass, however they are cut", async () => {
  const goaway = frame(GOAWAY, 0, 0, Buffer.alloc(8));
  const frames = [
    frame(SETTINGS, 0, 0),
    frame(DATA, 0, 1, Buffer.from("some data")),
    frame(DATA, 1, 1),
  ];
  const wanted = Buffer.concat([PREFACE, ...frames]);
  const sent = Buffer.concat([PREFACE, goaway, ...frames.flatMap((one) => [one, goaway])]);
  for (const size of [1, 2, 7, 9, 10, 1000]) {
    const connection = new PassThrough();
    for (let at = 0; at < sent.length; at += size) connection.write(sent.subarray(at, at + size));
    connection.end();
    const came = await withoutGoaway(connection).toArray();
    assert.deepEqual(Buffer.concat(came), wanted, `${size}`);
  }
});
