import assert from "node:assert/strict";
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { digestOf } from "../../oci/digest.ts";
import { decompress } from "../../oci/compression.ts";
import { blocksOf } from "../../oci/tar_blocks.ts";
import { tarEnd, tarHeader } from "../../oci/tar_write.ts";
import { KnownBlocks } from "./known_blocks.ts";
import { packLayer } from "./pack.ts";
import { DEFAULT_LEVELS, type Packing, packingKey } from "./packer_wire.ts";

const PACKING: Packing = { compression: "gzip", level: DEFAULT_LEVELS.gzip };

async function* streamOf(bytes: Uint8Array, chunk: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += chunk) yield bytes.slice(at, at + chunk);
}

/** Compressible, but not all the same. */
function sample(size: number, seed = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  let state = seed;
  for (let i = 0; i < size; i++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    bytes[i] = state >> 16 & 0x1f;
  }
  return bytes;
}

/** Files one after the other, as a layer has them. */
function archive(files: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  for (const [index, content] of files.entries()) {
    parts.push(tarHeader({ path: `f${index}`, type: "file", size: content.length }), content);
    parts.push(new Uint8Array((512 - content.length % 512) % 512));
  }
  parts.push(tarEnd());
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const pack = (
  bytes: Uint8Array,
  chunk: number,
  path: string,
  packing: Packing,
  known = new KnownBlocks(),
) => packLayer(blocksOf(streamOf(bytes, chunk)), path, packing, { known });

Deno.test("layers are packed to the same bytes whatever their chunks", async () => {
  await withFolder(async (folder) => {
    const archives = [
      ...[0, 1, 1000, 128 * 1024, 128 * 1024 + 1, 3_000_000].map((size) => sample(size)),
      archive([sample(10), sample(700_000), sample(400_001), sample(2_500_000, 7), sample(0)]),
      archive(Array.from({ length: 900 }, (_, n) => sample(n * 3, n + 1))),
    ];
    for (const [index, bytes] of archives.entries()) {
      const digests = new Set<string>();
      for (const chunk of [777, 65536, 1 << 20]) {
        const path = `${folder}/${index}-${chunk}`;
        const packed = await pack(bytes, chunk, path, PACKING);
        const file = await Deno.readFile(path);
        assert.equal(packed.size, file.length);
        assert.equal(packed.digest, digestOf(file));
        assert.equal(packed.diffID, digestOf(bytes));
        assert.ok(gunzipSync(file).equals(bytes));
        digests.add(packed.digest);
      }
      assert.equal(digests.size, 1, `archive ${index}`);
    }
  });
});

Deno.test("what was packed before is taken as it is, and changes no byte", async () => {
  await withFolder(async (folder) => {
    const [one, two] = [sample(1_500_000, 3), sample(600_000, 4)];
    const first = archive([one, two]);
    const second = archive([two, sample(100, 5), one, one]);
    for (const compression of ["gzip", "zstd"] as const) {
      const packing = { compression, level: 2 };
      const known = new KnownBlocks();
      const [, together] = await Promise.all([
        pack(first, 65536, `${folder}/${compression}-1`, packing, known),
        pack(second, 65536, `${folder}/${compression}-2`, packing, known),
      ]);
      const later = await pack(second, 65536, `${folder}/${compression}-3`, packing, known);
      const alone = await pack(second, 65536, `${folder}/${compression}-4`, packing);
      assert.deepEqual(together, alone);
      assert.deepEqual(later, alone);
      const file = await Deno.readFile(`${folder}/${compression}-3`);
      assert.equal(digestOf(file), alone.digest);
      const plain = await Array.fromAsync(decompress(new Blob([file]).stream()));
      assert.equal(
        digestOf(new Uint8Array(await new Blob(plain as BlobPart[]).arrayBuffer())),
        digestOf(second),
      );
    }
  });
});

Deno.test("a stream that fails fails the packing, an abort ends it", async () => {
  await withFolder(async (folder) => {
    for (const size of [1000, 3_000_000]) {
      const broken = async function* () {
        for (let at = 0; at < size; at += 1000) yield new Uint8Array(1000);
        throw new Error("disk on fire");
      };
      await assert.rejects(
        packLayer(blocksOf(broken()), `${folder}/broken-${size}`, PACKING, {
          known: new KnownBlocks(),
        }),
        /disk on fire/,
      );
    }
    const abort = new AbortController();
    const endless = async function* () {
      for (let count = 0;; count++) {
        yield new Uint8Array(1 << 20).fill(count);
        if (count === 20) abort.abort();
      }
    };
    await assert.rejects(
      packLayer(blocksOf(endless()), `${folder}/endless`, PACKING, {
        known: new KnownBlocks(),
        signal: abort.signal,
      }),
      { name: "AbortError" },
    );
  });
});

Deno.test("layers are packed with zstd or not at all where that is asked for", async () => {
  await withFolder(async (folder) => {
    for (const size of [0, 1000, 3_000_000]) {
      const bytes = sample(size);
      for (const compression of ["zstd", "uncompressed"] as const) {
        const packing = { compression, level: compression === "zstd" ? 7 : 0 };
        const path = `${folder}/${size}-${packingKey(packing)}`;
        const packed = await pack(bytes, 65536, path, packing);
        const file = await Deno.readFile(path);
        assert.equal(packed.digest, digestOf(file));
        assert.equal(packed.diffID, digestOf(bytes));
        if (compression === "uncompressed") assert.ok(digestOf(file) === packed.diffID);
        else {
          const plain = await Array.fromAsync(decompress(new Blob([file]).stream()));
          const whole = new Uint8Array(await new Blob(plain as BlobPart[]).arrayBuffer());
          assert.equal(digestOf(whole), packed.diffID);
          // One frame is what every decoder reads.
          if (size === 1000) assert.equal(digestOf(zstdDecompressSync(file)), packed.diffID);
        }
      }
    }
  });
});
