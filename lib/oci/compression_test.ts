import assert from "node:assert/strict";
import * as zlib from "node:zlib";
import { SvcError } from "../base/errors.ts";
import { decompress, detectCompression } from "./compression.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const TEXT = Array.from({ length: 30_000 }, (_, i) => `line ${i * 7919 % 104729}`).join("\n");

function streamOf(data: Uint8Array, step: number): ReadableStream<Uint8Array> {
  return ReadableStream.from(function* () {
    for (let at = 0; at < data.length; at += step) yield data.subarray(at, at + step);
  }());
}

const text = (stream: ReadableStream<Uint8Array>) => new Response(stream as BodyInit).text();
const halves = [bytes(TEXT.slice(0, 1000)), bytes(TEXT.slice(1000))];
/** A zstd skippable frame. */
const SKIP = Uint8Array.from([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
const unsized = (data: Uint8Array) =>
  zlib.zstdCompressSync(data, {
    params: {
      [zlib.constants.ZSTD_c_contentSizeFlag]: 0,
      [zlib.constants.ZSTD_c_checksumFlag]: 1,
    },
  });

const FORMS: Record<string, Uint8Array> = {
  plain: bytes(TEXT),
  gzip: zlib.gzipSync(TEXT),
  "gzip of two members": Buffer.concat(halves.map((half) => zlib.gzipSync(half))),
  zstd: zlib.zstdCompressSync(TEXT),
  "zstd of two frames": Buffer.concat(halves.map((half) => zlib.zstdCompressSync(half))),
  "zstd without sizes, with checksums": Buffer.concat(halves.map(unsized)),
  "zstd between skippable frames": Buffer.concat([SKIP, zlib.zstdCompressSync(TEXT), SKIP, SKIP]),
  "zstd with an empty frame": Buffer.concat([
    zlib.zstdCompressSync(new Uint8Array(0)),
    zlib.zstdCompressSync(TEXT),
  ]),
};

for (const [name, data] of Object.entries(FORMS)) {
  Deno.test(`decompress: ${name}, in chunks of any size`, async () => {
    for (const step of [1 << 20, 4096, 7]) {
      assert.equal(await text(decompress(streamOf(data, step))), TEXT);
    }
  });

  if (name === "plain") continue;
  Deno.test(`decompress: ${name}, cut or damaged, is archive_invalid`, async () => {
    for (const length of [data.length - 1, data.length >> 1, 20]) {
      // Cut between two members or frames it would be whole.
      await assert.rejects(
        text(decompress(streamOf(data.subarray(0, length), 4096))),
        (error) => error instanceof SvcError && error.code === "archive_invalid",
        `cut at ${length}`,
      );
    }
    const damaged = Uint8Array.from(data);
    for (let i = 40; i < 60; i++) damaged[(data.length >> 1) + i] ^= 0x55;
    // Without a checksum zstd may not notice; what comes out is not the text.
    const result = await text(decompress(streamOf(damaged, 4096))).catch((error) => {
      assert.ok(error instanceof SvcError && error.code === "archive_invalid", String(error));
      return undefined;
    });
    assert.notEqual(result, TEXT);
  });
}

Deno.test("decompress: short and empty input is plain", async () => {
  for (const plain of ["", "a", "abc"]) {
    assert.equal(await text(decompress(streamOf(bytes(plain), 1))), plain);
  }
  assert.equal(detectCompression(new Uint8Array(0)), "none");
});

Deno.test("decompress: what the source throws passes through; leaving cancels it", async () => {
  for (const data of [FORMS.gzip, FORMS.zstd, FORMS.plain]) {
    let sent = false;
    const failing = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (sent) controller.error(new Error("connection lost"));
        else controller.enqueue(data.subarray(0, 1000));
        sent = true;
      },
    });
    await assert.rejects(text(decompress(failing)), /connection lost/);
    let cancelled = false;
    const watched = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(data),
      cancel: () => {
        cancelled = true;
      },
    }, { highWaterMark: 0 });
    const reader = decompress(watched).getReader();
    await reader.read();
    await reader.cancel();
    assert.ok(cancelled);
  }
});
