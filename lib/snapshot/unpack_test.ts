import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as zlib from "node:zlib";
import { createLogger } from "../base/log.ts";
import { SvcError } from "../base/errors.ts";
import type { ResolvedImage } from "../oci/resolver.ts";
import { MEDIA } from "../oci/types.ts";
import { writeTar } from "../oci/tar_write.ts";
import { canMount } from "../sys/mount.ts";
import { createSnapshotter } from "./create.ts";
import type { Snapshotter } from "./snapshotter.ts";
import { closeIdleWorkers } from "../base/worker_pool.ts";
import { chainIDs, EMPTY_SNAPSHOT, unpackImage, type UnpackProgress } from "./unpack.ts";

const able = canMount();
if (!able && Deno.env.get("CI") === "true") throw new Error("these tests need root (mount)");
const log = createLogger({ level: "error", format: "text", write: (line) => console.error(line) });
const sha256 = (data: Uint8Array) => `sha256:${createHash("sha256").update(data).digest("hex")}`;
const bytes = (text: string) => new TextEncoder().encode(text);

interface Fetches {
  count: Map<string, number>;
  open: number;
  most: number;
}

/** An image of one file per layer, from a source that counts. */
async function image(
  texts: string[],
  options: {
    file?: string;
    wait?: Promise<void>;
    broken?: number;
    pack?: (tar: Uint8Array) => Uint8Array;
  } = {},
): Promise<{ image: ResolvedImage; fetches: Fetches }> {
  const fetches: Fetches = { count: new Map(), open: 0, most: 0 };
  const blobs = new Map<string, Uint8Array>();
  const layers = [], diffIDs: string[] = [];
  for (const [i, text] of texts.entries()) {
    const entries = [{ path: `f${i}`, type: "file" as const, body: bytes(text) }];
    const tar = new Uint8Array(await new Response(writeTar(entries) as BodyInit).arrayBuffer());
    const blob = new Uint8Array((options.pack ?? zlib.gzipSync)(tar));
    const digest = sha256(blob);
    blobs.set(digest, blob);
    layers.push({ mediaType: MEDIA.layerGzip, digest, size: blob.length });
    diffIDs.push(i === options.broken ? sha256(bytes("other")) : sha256(tar));
  }
  const source = {
    get: async (_repository: string, digest: string, { signal }: { signal?: AbortSignal } = {}) => {
      const blob = blobs.get(digest);
      if (!blob) return undefined;
      fetches.count.set(digest, (fetches.count.get(digest) ?? 0) + 1);
      const file = options.file && `${options.file}/${digest.slice(7)}`;
      if (file) await Deno.writeFile(file, blob);
      return {
        size: blob.length,
        file: file ? { path: file, offset: 0 } : undefined,
        stream: () =>
          ReadableStream.from(async function* () {
            fetches.most = Math.max(fetches.most, ++fetches.open);
            await options.wait;
            signal?.throwIfAborted();
            yield blob;
            fetches.open--;
          }()),
      };
    },
  };
  const descriptor = { mediaType: MEDIA.manifest, digest: sha256(bytes("m")), size: 1 };
  return {
    fetches,
    image: {
      name: "localhost/test:v1",
      source: source as unknown as ResolvedImage["source"],
      repository: "test",
      descriptor,
      manifest: { schemaVersion: 2, config: descriptor, layers },
      config: { os: "linux", architecture: "amd64", rootfs: { type: "layers", diff_ids: diffIDs } },
    },
  };
}

function test(name: string, fn: (snapshotter: Snapshotter, folder: string) => Promise<void>) {
  Deno.test({ name: `unpackImage: ${name}`, ignore: !able }, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-unpack-" });
    try {
      const snapshotter = await createSnapshotter({ root: `${folder}/data`, driver: "auto", log });
      await fn(snapshotter, folder);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

const names = async (snapshotter: Snapshotter) =>
  (await Array.fromAsync(snapshotter.list())).map((info) => info.name).sort();

async function filesOf(snapshotter: Snapshotter, name: string, folder: string) {
  await using _view = await snapshotter.view(name, `${folder}/view`);
  const read = (file: string) => Deno.readTextFileSync(`${folder}/view/${file}`);
  return [...Deno.readDirSync(`${folder}/view`)].map(({ name }) => [name, read(name)]).sort();
}

Deno.test("chainIDs: the image specification's example", () => {
  const a = `sha256:${"a".repeat(64)}`, b = `sha256:${"b".repeat(64)}`;
  const ab = sha256(bytes(`${a} ${b}`));
  assert.deepEqual(chainIDs([a, b, a]), [a, ab, sha256(bytes(`${ab} ${a}`))]);
  assert.deepEqual(chainIDs([]), []);
});

test(
  "layers become snapshots, fetched ahead but not without bound, and only once",
  async (s, folder) => {
    const texts = ["a", "b", "c", "d", "e", "f", "g"];
    const { image: first, fetches } = await image(texts);
    const name = await unpackImage(s, first);
    assert.equal(name, chainIDs(first.config.rootfs.diff_ids).at(-1));
    assert.deepEqual(
      await filesOf(s, name, folder),
      texts.map((text, i) => [`f${i}`, text]),
    );
    assert.ok([...fetches.count.values()].every((count) => count === 1));
    assert.ok(fetches.most <= 4, `${fetches.most} layers at once`);
    assert.deepEqual([...Deno.readDirSync(s.scratch)], []);

    const { image: second, fetches: more } = await image([...texts.slice(0, 6), "other"]);
    const progress: UnpackProgress[] = [];
    await unpackImage(s, second, { onProgress: (event) => progress.push(event) });
    assert.deepEqual([...more.count.keys()], [second.manifest.layers[6].digest]);
    assert.deepEqual(
      progress.map(({ index, state }) => `${index} ${state}`),
      [0, 1, 2, 3, 4, 5].map((i) => `${i} present`).concat("6 fetching", "6 unpacking", "6 done"),
    );
  },
);

test("a layer that is a local file is read in place", async (s, folder) => {
  const { image: local } = await image(["a", "b"], { file: folder });
  const name = await unpackImage(s, local);
  assert.deepEqual(await filesOf(s, name, folder), [["f0", "a"], ["f1", "b"]]);
});

test("layers that unpack to more than allowed, one of them or all together", async (s) => {
  const huge = "0".repeat(8 << 20);
  for (const pack of [zlib.gzipSync, zlib.zstdCompressSync]) {
    const { image: bomb } = await image(["a", huge], { pack });
    assert.ok(bomb.manifest.layers[1].size < 64 * 1024);
    await assert.rejects(unpackImage(s, bomb, { maxBytes: 1 << 20 }), {
      code: "too_large",
      message:
        "Cannot unpack layer 2 of localhost/test:v1: the image has more than 1.0 MiB unpacked",
      help: /SVC_MAX_BUILD_UNPACKED_BYTES/,
    });
  }
  const [below] = await names(s);
  const { image: many } = await image(["b", "c", "d", "e"].map((text) => text.repeat(1 << 20)));
  const of = (count: number) => ({ maxBytes: count * (1 << 20) + 64 * 1024 });
  await assert.rejects(unpackImage(s, many, of(3)), { code: "too_large", message: /layer 4 of/ });
  const chain = chainIDs(many.config.rootfs.diff_ids);
  assert.deepEqual(await names(s), [below, ...chain.slice(0, 3)].sort());
  assert.deepEqual([...Deno.readDirSync(s.scratch)], []);
  // What is there already does not count.
  assert.equal(await unpackImage(s, many, of(1)), chain[3]);
});

test("callers at the same time share the work", async (s) => {
  const { promise: wait, resolve } = Promise.withResolvers<void>();
  const { image: slow, fetches } = await image(["a", "b"], { wait });
  const all = [1, 2, 3].map(() => unpackImage(s, slow));
  setTimeout(resolve, 50);
  assert.equal(new Set(await Promise.all(all)).size, 1);
  assert.equal(fetches.count.get(slow.manifest.layers[0].digest), 1);
  assert.equal((await names(s)).length, 2);
});

test("one caller that leaves does not disturb another; the last one stops the work", async (s) => {
  const { promise: wait, resolve } = Promise.withResolvers<void>();
  const { image: slow } = await image(["a", "b"], { wait });
  const abort = new AbortController();
  const leaves = unpackImage(s, slow, { signal: abort.signal });
  const stays = unpackImage(s, slow);
  setTimeout(() => abort.abort(), 30);
  await assert.rejects(leaves, { name: "AbortError" });
  resolve();
  assert.equal(await stays, chainIDs(slow.config.rootfs.diff_ids).at(-1));
  const { image: endless } = await image(["x"], { wait: new Promise(() => {}) });
  await assert.rejects(unpackImage(s, endless, { signal: AbortSignal.timeout(30) }), {
    name: "TimeoutError",
  });
  assert.equal((await names(s)).length, 2, (await names(s)).join());
});

test("a layer that is not what the config says is refused, and nothing of it kept", async (s) => {
  const { image: wrong } = await image(["a", "b", "c"], { broken: 1 });
  await assert.rejects(
    unpackImage(s, wrong),
    (error) => error instanceof SvcError && error.code === "digest_invalid",
  );
  assert.deepEqual(await names(s), [wrong.config.rootfs.diff_ids[0]]);
  assert.deepEqual([...Deno.readDirSync(s.scratch)], []);
  wrong.config.rootfs.diff_ids.pop();
  await assert.rejects(
    unpackImage(s, wrong),
    (error) => error instanceof SvcError && error.code === "manifest_invalid",
  );
  const { image: gone } = await image(["q"]);
  gone.manifest.layers[0].digest = sha256(bytes("missing"));
  await assert.rejects(
    unpackImage(s, gone),
    (error) => error instanceof SvcError && error.code === "blob_unknown",
  );
});

test("an image without layers is an empty snapshot", async (s, folder) => {
  const { image: scratch } = await image([]);
  const results = await Promise.all([unpackImage(s, scratch), unpackImage(s, scratch)]);
  assert.deepEqual(results, [EMPTY_SNAPSHOT, EMPTY_SNAPSHOT]);
  assert.deepEqual(await filesOf(s, EMPTY_SNAPSHOT, folder), []);
});

Deno.test.afterAll(closeIdleWorkers);

test(
  "layers whose ids alone are known are not given to who may not read what is here",
  async (snapshotter, folder) => {
    const { image: hidden } = await image(["secret", "more"]);
    await unpackImage(snapshotter, hidden);
    // Somebody's own registry has layers of the same ids, and none of their bytes.
    const empty = { get: () => Promise.resolve(undefined) };
    const claimed = { ...hidden, source: empty as unknown as ResolvedImage["source"] };
    await assert.rejects(
      unpackImage(snapshotter, { ...claimed, apart: true }),
      (error) => error instanceof SvcError && error.code === "blob_unknown",
    );
    const { image: lying } = await image(["mine", "more"]);
    const { rootfs } = hidden.config;
    await assert.rejects(
      unpackImage(snapshotter, { ...lying, config: { ...lying.config, rootfs }, apart: true }),
      (error) => error instanceof SvcError && error.code === "digest_invalid",
    );
    // With their bytes it is an image as any other.
    const name = await unpackImage(snapshotter, { ...hidden, apart: true });
    assert.deepEqual(await filesOf(snapshotter, name, folder), [["f0", "secret"], ["f1", "more"]]);
    assert.notEqual(name, chainIDs(rootfs.diff_ids).at(-1));
  },
);
