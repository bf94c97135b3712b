import assert from "node:assert/strict";
import { digestOf } from "./digest.ts";
import { type ArchiveBlock, blocksOf, MAX_BLOCK } from "./tar_blocks.ts";
import { writeTar } from "./tar_write.ts";

const KIB = 1024;

/** No two stretches are the same. */
function content(size: number, seed: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at + 4 <= size; at += 64) view.setUint32(at, at * 1009 + seed);
  return bytes;
}

interface File {
  path: string;
  body: Uint8Array;
}

async function archive(files: File[]): Promise<Uint8Array<ArrayBuffer>> {
  const entries = files.map((file) => ({ ...file, type: "file" as const }));
  return new Uint8Array(await new Response(writeTar(entries) as BodyInit).arrayBuffer());
}

async function cut(bytes: Uint8Array, chunk: number): Promise<ArchiveBlock[]> {
  const chunks = async function* () {
    for (let at = 0; at < bytes.length; at += chunk) yield bytes.slice(at, at + chunk);
  };
  const parts = await Array.fromAsync(blocksOf(chunks()));
  const end = parts.pop();
  assert.deepEqual(end, { kind: "end", diffID: digestOf(bytes) });
  const blocks = parts.filter((part) => part.kind === "block");
  assert.equal(blocks.length, parts.length);
  assert.ok(blocks.every((block) => block.bytes.length > 0 && block.bytes.length <= MAX_BLOCK));
  const whole = new Uint8Array(await new Blob(blocks.map((block) => block.bytes)).arrayBuffer());
  assert.equal(digestOf(whole), digestOf(bytes));
  return blocks;
}

const digests = (blocks: ArchiveBlock[]) => blocks.map(({ digest }) => digest);

Deno.test("an archive is cut in the same places however it comes", async () => {
  const files = Array.from({ length: 300 }, (_, n) => ({
    path: `${"d/".repeat(n % 90)}f${n}`,
    body: content(n % 50 === 0 ? 300 * KIB + n : n * 40, n),
  }));
  const bytes = await archive(files);
  const expected = digests(await cut(bytes, bytes.length));
  assert.ok(expected.length > 10);
  for (const chunk of [511, 512, 100_000, MAX_BLOCK]) {
    assert.deepEqual(digests(await cut(bytes, chunk)), expected, `chunks of ${chunk}`);
  }
});

Deno.test("large contents give the same blocks wherever they stand", async () => {
  const large = content(2500 * KIB + 100, 3);
  const one = await cut(await archive([{ path: "a", body: large }]), 65536);
  const other = await cut(
    await archive([
      { path: "x", body: content(1000, 9) },
      { path: "y/z", body: large },
      { path: "y/z2", body: large },
    ]),
    65536,
  );
  // But for its header's and the archive's end.
  const own = digests(one).slice(1, -1);
  assert.equal(own.length, 3);
  const all = digests(other);
  for (const digest of own) assert.equal(all.filter((found) => found === digest).length, 2);
});

Deno.test("a small file that changed leaves most blocks of the others as they were", async () => {
  const files = Array.from({ length: 4000 }, (_, n) => ({
    path: `src/f${n}`,
    body: content(n % 3000, n),
  }));
  const before = new Set(digests(await cut(await archive(files), 65536)));
  files[1234].body = content(5000, 1);
  const after = digests(await cut(await archive(files), 65536));
  const changed = after.filter((digest) => !before.has(digest));
  assert.ok(after.length > 10, `${after.length} blocks`);
  assert.ok(changed.length <= 4, `${changed.length} of ${after.length} blocks changed`);
});

Deno.test("what is not an archive is cut all the same", async () => {
  for (const size of [0, 1, 511, 512, 513, 3 * MAX_BLOCK + 5]) {
    const blocks = await cut(content(size, 1), 70_000);
    assert.equal(blocks.length, Math.ceil(size / MAX_BLOCK));
  }
});
