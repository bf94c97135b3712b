import assert from "node:assert/strict";
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { digestOf } from "../../oci/digest.ts";
import { packLayer } from "./pack.ts";
import { DEFAULT_PACKING, packingKey } from "./packer_wire.ts";

function streamOf(bytes: Uint8Array, chunk: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at += chunk));
    },
  });
}

/** Compressible, but not all the same. */
function sample(size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  let state = 1;
  for (let i = 0; i < size; i++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    bytes[i] = state >> 16 & 0x1f;
  }
  return bytes;
}

Deno.test("layers are packed to the same bytes whatever their chunks", async () => {
  const folder = await Deno.makeTempDir();
  try {
    for (const size of [0, 1, 1000, 128 * 1024, 128 * 1024 + 1, 3_000_000]) {
      const bytes = sample(size);
      const digests = new Set<string>();
      for (const chunk of [777, 65536, 1 << 20]) {
        const path = `${folder}/${size}-${chunk}`;
        const packed = await packLayer(streamOf(bytes, chunk), path, DEFAULT_PACKING);
        const file = await Deno.readFile(path);
        assert.equal(packed.size, file.length);
        assert.equal(packed.digest, digestOf(file));
        assert.equal(packed.diffID, digestOf(bytes));
        assert.ok(gunzipSync(file).equals(bytes));
        digests.add(packed.digest);
      }
      assert.equal(digests.size, 1, `${size} bytes`);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a stream that fails fails the packing, an abort ends it", async () => {
  const folder = await Deno.makeTempDir();
  try {
    for (const size of [1000, 3_000_000]) {
      let at = 0;
      const broken = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (at >= size) throw new Error("disk on fire");
          at += 1000;
          controller.enqueue(new Uint8Array(1000));
        },
      });
      await assert.rejects(
        packLayer(broken, `${folder}/broken-${size}`, DEFAULT_PACKING),
        /disk on fire/,
      );
    }
    const abort = new AbortController();
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(sample(1 << 20));
        if (++count === 20) abort.abort();
      },
    });
    let count = 0;
    await assert.rejects(packLayer(endless, `${folder}/endless`, DEFAULT_PACKING, abort.signal), {
      name: "AbortError",
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("layers are packed with zstd or not at all where that is asked for", async () => {
  const folder = await Deno.makeTempDir();
  try {
    for (const size of [1000, 3_000_000]) {
      const bytes = sample(size);
      for (const compression of ["zstd", "uncompressed"] as const) {
        const packing = { compression, level: compression === "zstd" ? 7 : 0 };
        const path = `${folder}/${size}-${packingKey(packing)}`;
        const packed = await packLayer(streamOf(bytes, 65536), path, packing);
        const file = await Deno.readFile(path);
        assert.equal(packed.digest, digestOf(file));
        assert.equal(packed.diffID, digestOf(bytes));
        const plain = compression === "zstd" ? zstdDecompressSync(file) : file;
        assert.ok(digestOf(plain) === packed.diffID);
      }
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
