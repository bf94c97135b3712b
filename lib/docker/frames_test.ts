import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import { readFrames, splitOutput } from "./frames.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function frame(stream: number, text: string): Uint8Array {
  const bytes = encoder.encode(text);
  const all = new Uint8Array(8 + bytes.length);
  all[0] = stream;
  new DataView(all.buffer).setUint32(4, bytes.length);
  all.set(bytes, 8);
  return all;
}

function pieces(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const all: Uint8Array[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length];
    all.push(bytes.slice(at, at + size));
    at += size;
  }
  return all;
}

const joined = (parts: Uint8Array[]) => new Uint8Array(parts.flatMap((part) => [...part]));

Deno.test("frames are read however the bytes are cut", async () => {
  await fc.assert(fc.asyncProperty(
    fc.array(fc.tuple(fc.constantFrom(1, 2), fc.string())),
    fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 }),
    async (frames, sizes) => {
      const bytes = joined(frames.map(([stream, text]) => frame(stream, text)));
      const got = { stdout: "", stderr: "" };
      const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
      let last = true;
      const read = await Array.fromAsync(readFrames(ReadableStream.from(pieces(bytes, sizes))));
      for (const one of read.flat()) {
        ok(one.bytes.length > 0);
        parts[one.stream].push(one.bytes);
        last = one.last;
      }
      ok(last);
      for (const name of ["stdout", "stderr"] as const) {
        got[name] = decoder.decode(joined(parts[name]));
      }
      const of = (wanted: number) =>
        decoder.decode(
          joined(frames.filter(([n]) => n === wanted).map(([, t]) => encoder.encode(t))),
        );
      deepStrictEqual(got, { stdout: of(1), stderr: of(2) });
    },
  ));
});

Deno.test("output that is cut off, or has no frames, is refused", async () => {
  const read = (bytes: Uint8Array) => Array.fromAsync(readFrames(ReadableStream.from([bytes])));
  await rejects(read(frame(1, "hello").slice(0, 10)), /cut off/);
  await rejects(read(frame(1, "hello").slice(0, 3)), /cut off/);
  await rejects(read(encoder.encode("plain text output")), /no frames/);
  await rejects(read(frame(3, "the daemon's own failure\n")), /own failure$/);
});

Deno.test("a stream that is cancelled does not hold up the other", async () => {
  let closed = 0;
  const bytes = Array.from({ length: 50 }, (_, i) => [frame(2, `e${i}\n`), frame(1, `o${i}\n`)]);
  const { stdout, stderr } = splitOutput(ReadableStream.from(bytes.flat()), () => closed++);
  await stderr.cancel();
  const text = await new Response(stdout).text();
  strictEqual(text.split("\n").length, 51);
  strictEqual(closed, 0);
});

Deno.test("a slow reader holds up the output: it is not gathered in memory", async () => {
  let pulled = 0;
  const source = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (++pulled > 1000) return controller.close();
      controller.enqueue(frame(1, "x".repeat(1000)));
    },
  }, { highWaterMark: 0 });
  const { stdout } = splitOutput(source, () => {});
  const reader = stdout.getReader();
  await reader.read();
  for (let i = 0; i < 200; i++) await Promise.resolve();
  ok(pulled < 20, `${pulled}`);
  await reader.cancel();
});
