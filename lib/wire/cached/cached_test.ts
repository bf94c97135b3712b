import assert from "node:assert/strict";
import { join } from "node:path";
import { hostFolder } from "../files/host_node.ts";
import { type FileNode, OPEN, type OpenFile } from "../files/node.ts";
import { ERRNO } from "../files/stat.ts";
import { pattern } from "../testing.ts";
import { CachedNode } from "./cached_node.ts";
import { collect } from "./collect.ts";
import { FileCache, prepareCache } from "./file_cache.ts";

const CHUNK = 4096;
const SIZE = 3 * CHUNK + 100;

interface Scene extends AsyncDisposable {
  folder: string;
  kept: string;
  /** Bytes that were read at the other machine. */
  read(): number;
  tree(owner?: string, maxBytes?: number): CachedNode;
}

async function scene(): Promise<Scene> {
  const base = await Deno.makeTempDir({ prefix: "svc-cached-" });
  const [folder, kept] = [join(base, "files"), join(base, "kept")];
  await Deno.mkdir(folder);
  await prepareCache(kept);
  let read = 0;
  const counted = (node: FileNode): FileNode =>
    new Proxy(node, {
      get(target, key) {
        if (key === "walk") {
          return async (name: string) => counted(await target.walk(name));
        }
        if (key === "open") {
          return async (flags: number): Promise<OpenFile> => {
            const file = await target.open(flags);
            return {
              async read(offset, into) {
                const got = await file.read(offset, into);
                read += got;
                return got;
              },
              close: () => file.close(),
            };
          };
        }
        const value = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  const nodes: FileNode[] = [];
  return {
    ...{ folder, kept },
    read: () => read,
    tree(owner = "o", maxBytes) {
      const node = hostFolder(folder);
      nodes.push(node);
      const cache = new FileCache({ folder: kept, chunkSize: CHUNK, maxBytes });
      return new CachedNode(counted(node), { cache, owner });
    },
    async [Symbol.asyncDispose]() {
      for (const node of nodes) node.close();
      await Deno.remove(base, { recursive: true });
    },
  };
}

async function content(tree: CachedNode, name = "file", from = 0, size = SIZE + 50) {
  const node = await tree.walk(name);
  const file = await node.open(0);
  const into = new Uint8Array(size);
  try {
    return into.subarray(0, await file.read(from, into));
  } finally {
    await file.close();
    node.close();
  }
}

Deno.test("cached: what was read once is read here, also by a later process", async () => {
  await using at = await scene();
  const want = pattern(SIZE);
  await Deno.writeFile(join(at.folder, "file"), want);
  const tree = at.tree();
  assert.deepEqual(
    await content(tree, "file", CHUNK + 5, 10),
    want.subarray(CHUNK + 5, CHUNK + 15),
  );
  assert.equal(at.read(), CHUNK);
  assert.deepEqual(await content(tree), want);
  assert.equal(at.read(), SIZE);
  assert.deepEqual(await content(at.tree()), want);
  assert.deepEqual(await content(tree, "file", SIZE - 10), want.subarray(SIZE - 10));
  assert.deepEqual(await content(tree, "file", SIZE + 10), new Uint8Array(0));
  assert.equal(at.read(), SIZE);
  await assert.rejects(() => tree.walk("file").then((node) => node.open(OPEN.RDWR)), {
    errno: ERRNO.EROFS,
  });
});

Deno.test("cached: a file that changes is another one; while it is open nothing is mixed", async () => {
  await using at = await scene();
  const path = join(at.folder, "file");
  await Deno.writeFile(path, pattern(SIZE));
  const tree = at.tree();
  const node = await tree.walk("file");
  const file = await node.open(0);
  const into = new Uint8Array(CHUNK);
  await file.read(0, into);
  const next = pattern(SIZE, 2);
  await Deno.writeFile(path, next);
  assert.equal(await file.read(0, into), CHUNK);
  assert.deepEqual(into, pattern(SIZE).subarray(0, CHUNK));
  await assert.rejects(async () => await file.read(CHUNK, into), { errno: ERRNO.ESTALE });
  await file.close();
  node.close();
  assert.deepEqual(await content(tree), next);
});

Deno.test("cached: another caller's mount is not served what was kept for one", async () => {
  await using at = await scene();
  await Deno.writeFile(join(at.folder, "file"), pattern(SIZE));
  await content(at.tree("one"));
  assert.equal(at.read(), SIZE);
  await content(at.tree("two"));
  assert.equal(at.read(), 2 * SIZE);
  // All that tells two files apart is told apart.
  await Deno.link(join(at.folder, "file"), join(at.folder, "other"));
  await content(at.tree("one"), "other");
  assert.equal(at.read(), 3 * SIZE);
});

async function files(folder: string, end: string): Promise<string[]> {
  const all = await Array.fromAsync(Deno.readDir(folder));
  return all.filter(({ name }) => name.endsWith(end)).map(({ name }) => join(folder, name));
}

Deno.test("cached: whatever of index and data is on the disk, no wrong byte is served", async () => {
  await using at = await scene();
  const want = pattern(SIZE);
  await Deno.writeFile(join(at.folder, "file"), want);
  await content(at.tree());
  const [[data], [index]] = [await files(at.kept, ".data"), await files(at.kept, ".index")];
  const [bytes, records] = [await Deno.readFile(data), await Deno.readFile(index)];
  const damaged: [string, () => Promise<unknown>][] = [
    ["no data", () => Deno.writeFile(data, new Uint8Array(0))],
    ["zeros", () => Deno.writeFile(data, new Uint8Array(SIZE))],
    ["one bit", () => Deno.writeFile(data, bytes.map((byte, n) => n === 5000 ? byte ^ 1 : byte))],
    ["data cut off", () => Deno.writeFile(data, bytes.subarray(0, CHUNK + 7))],
    ["index of zeros", () => Deno.writeFile(index, new Uint8Array(records.length))],
    ["no index", () => Deno.remove(index)],
    ["no data at all", () => Deno.remove(data)],
    ...Array.from(
      { length: records.length },
      (_, n): [string, () => Promise<unknown>] => [
        `index cut off at ${n}`,
        () => Deno.writeFile(index, records.subarray(0, n)),
      ],
    ).filter((_, n) => n % 7 === 0),
  ];
  for (const [what, damage] of damaged) {
    await Deno.writeFile(data, bytes);
    await Deno.writeFile(index, records);
    await damage();
    const tree = at.tree();
    assert.deepEqual(await content(tree), want, what);
    assert.deepEqual(await content(at.tree()), want, `${what}, and again`);
  }
  const before = at.read();
  await content(at.tree());
  assert.equal(at.read(), before, "what was damaged was kept again");
});

Deno.test("cached: the least recently opened goes where the bound is exceeded", async () => {
  await using at = await scene();
  const most = 24 * CHUNK;
  for (let n = 0; n < 8; n++) await Deno.writeFile(join(at.folder, `f${n}`), pattern(SIZE, n));
  const tree = at.tree("o", most);
  for (let n = 0; n < 8; n++) {
    assert.deepEqual(await content(tree, `f${n}`), pattern(SIZE, n));
    // The first is used again and again.
    assert.deepEqual(await content(tree, "f0"), pattern(SIZE, 0));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(await collect(at.kept, most) <= most);
  const before = at.read();
  assert.deepEqual(await content(tree, "f0"), pattern(SIZE, 0));
  assert.equal(at.read(), before);
  assert.deepEqual(await content(tree, "f1"), pattern(SIZE, 1));
  assert.ok(at.read() > before);
});

Deno.test("cached: a full or broken disk is no reason to fail", async () => {
  await using at = await scene();
  await Deno.writeFile(join(at.folder, "file"), pattern(SIZE));
  const tree = at.tree();
  await Deno.remove(at.kept, { recursive: true });
  assert.deepEqual(await content(tree), pattern(SIZE));
});

Deno.test("cached: a folder that others could read is refused", async () => {
  await using at = await scene();
  const info = await Deno.stat(at.kept);
  assert.equal(info.mode! & 0o777, 0o700);
  await Deno.writeFile(join(at.folder, "file"), pattern(SIZE));
  await content(at.tree());
  for (const path of [...await files(at.kept, ".data"), ...await files(at.kept, ".index")]) {
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  }
  await Deno.chmod(at.kept, 0o755);
  await assert.rejects(() => prepareCache(at.kept), /of this user alone/);
  await Deno.symlink(at.folder, join(at.kept, "link"));
  await assert.rejects(() => prepareCache(join(at.kept, "link")), /of this user alone/);
});

Deno.test("cached: many reads at once fetch each chunk once", async () => {
  await using at = await scene();
  const want = pattern(SIZE);
  await Deno.writeFile(join(at.folder, "file"), want);
  const node = await at.tree().walk("file");
  const file = await node.open(0);
  await Promise.all(Array.from({ length: 50 }, async (_, n) => {
    const into = new Uint8Array(500);
    assert.equal(await file.read(n * 200, into), 500);
    assert.deepEqual(into, want.subarray(n * 200, n * 200 + 500));
  }));
  assert.ok(at.read() <= SIZE);
  await file.close();
  node.close();
});
