/** Round trips of a mount's calls, and writes that are not waited for. */
import assert from "node:assert/strict";
import { hostFolder } from "../files/host_node.ts";
import { type FileNode, type NodeWriter, OPEN } from "../files/node.ts";
import type { AheadFile } from "./remote_file.ts";
import { type RemoteNode, remoteRoot } from "./remote_node.ts";
import { type Served, served } from "./testing.ts";
import { ERRNO, FileError } from "../files/stat.ts";

async function mounted(exported: FileNode): Promise<Served & { root: RemoteNode }> {
  const ends = await served(exported, { maxMessage: 1 << 20 });
  const root = await remoteRoot(ends.client, "", { writable: true, ahead: true });
  return Object.assign(ends, { root });
}

const now = { s: 1, ns: 0 };
const STAT = { mode: 0o100644, uid: 0, gid: 0, nlink: 1, blocks: 0, atime: now, mtime: now };

/** A file in memory whose writes wait for `turn`. */
function slowFile(turn: () => Promise<void>): { node: FileNode; bytes: Uint8Array } {
  const bytes = new Uint8Array(64);
  let size = 0;
  const node: FileNode = {
    kind: "file",
    id: 7n,
    stat: () => ({ ...STAT, ctime: now, size }),
    walk: () => Promise.reject(new FileError(ERRNO.ENOTDIR)),
    list: () => Promise.reject(new FileError(ERRNO.ENOTDIR)),
    readlink: () => Promise.reject(new FileError(ERRNO.EINVAL)),
    open: () => ({
      read(offset, into) {
        const part = bytes.subarray(offset, Math.min(size, offset + into.length));
        into.set(part);
        return part.length;
      },
      async write(offset, part) {
        await turn();
        bytes.set(part, offset);
        size = Math.max(size, offset + part.length);
        return part.length;
      },
      close() {},
    }),
    // Only its presence counts here: nothing but the open file is written to.
    writer: {} as NodeWriter,
    close() {},
  };
  return { node, bytes };
}

Deno.test({
  name: "9p ahead: each call of a mount is one round trip, and a save is four",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-ahead-" });
    try {
      await using at = await mounted(hostFolder(folder, { writable: true }));
      const { root } = at;
      const trips = async <R>(most: number, what: string, work: () => Promise<R>): Promise<R> => {
        const before = at.trips();
        const result = await work();
        assert.ok(at.trips() - before <= most, `${what}: ${at.trips() - before} round trips`);
        return result;
      };
      await trips(1, "mkdir", () => root.mkdir("folder", 0o755));
      const found = await trips(1, "look-up", () => root.walk("folder"));
      assert.ok(found.takeStat());
      const save = async () => {
        const { node, file } = await root.create("new", OPEN.RDWR | OPEN.EXCL, 0o644);
        assert.ok(node.takeStat!());
        for (let n = 0; n < 10; n++) await file.write!(n * 1000, new Uint8Array(1000).fill(n));
        await file.sync!(false);
        await root.rename("new", root, "saved");
        await file.close();
        node.close();
      };
      await trips(4, "a save: create, write and fsync, rename, close", save);
      assert.equal((await Deno.stat(`${folder}/saved`)).size, 10_000);
      const saved = await root.walk("saved");
      const file = await trips(1, "open", () => saved.open(OPEN.RDWR));
      const into = new Uint8Array(12_000);
      await trips(0, "the first read came with it", async () => {
        assert.equal(await file.read(0, into), 10_000);
      });
      assert.equal(into[9999], 9);
      await trips(1, "read", () => file.read(100, into));
      await trips(1, "read again", () => file.read(50, new Uint8Array(100)));
      await trips(1, "attributes", () => file.stat());
      await trips(1, "change", () => saved.change({ mode: 0o600 }));
      assert.equal(saved.takeStat()!.mode & 0o777, 0o600);
      await assert.rejects(trips(1, "xattr", () => saved.getXattr("security.capability")));
      // What fails leaves no fid behind that a later call would trip over.
      for (let n = 0; n < 100; n++) {
        const errors = [
          () => root.create("saved", OPEN.RDWR | OPEN.EXCL, 0o644),
          () => root.mkdir("saved", 0o755),
          () => root.walk("none"),
          () => found.open(OPEN.RDWR),
        ].map((work) => assert.rejects(work() as Promise<unknown>, FileError));
        await Promise.all(errors);
      }
      assert.ok((await saved.stat()).size === 10_000);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("9p ahead: a write is not waited for, but everything comes after it", async () => {
  let go = Promise.withResolvers<void>();
  const { node, bytes } = slowFile(() => go.promise);
  await using at = await mounted(node);
  const open = async () => await at.root.open(OPEN.RDWR) as AheadFile;
  const [one, two] = [await open(), await open()];
  const into = new Uint8Array(4);
  const after: [string, () => Promise<unknown>][] = [
    ["a read by the same file", () => one.read(0, into)],
    ["a read by another file", () => two.read(0, into)],
    ["the attributes", async () => assert.equal((await at.root.stat()).size, 4)],
    ["the attributes of the other file", async () => assert.equal((await two.stat()).size, 4)],
    ["flush", () => one.flush()],
    ["sync", () => two.sync(false)],
    ["a write by another file", () => two.write(4, new Uint8Array(0))],
  ];
  for (const [what, work] of after) {
    go = Promise.withResolvers();
    bytes.fill(0);
    into.fill(0);
    const value = Math.floor(Math.random() * 200) + 1;
    await one.write(0, new Uint8Array(4).fill(value));
    assert.equal(bytes[0], 0, "it was waited for");
    let done = false;
    const result = work().then(() => done = true);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(done, false, `${what} does not wait`);
    go.resolve();
    await result;
    assert.equal(bytes[0], value, what);
    if (what.startsWith("a read")) assert.equal(into[0], value, what);
  }
});

Deno.test("9p ahead: a write that fails is told once, by the next write, flush or sync", async () => {
  const { node } = slowFile(() => Promise.reject(new FileError(ERRNO.ENOSPC)));
  await using at = await mounted(node);
  const full = (error: unknown) => error instanceof FileError && error.errno === ERRNO.ENOSPC;
  const file = await at.root.open(OPEN.RDWR) as AheadFile;
  const calls: (() => Promise<unknown>)[] = [() => file.flush(), () => file.sync(true)];
  for (const call of calls) {
    await file.write(0, new Uint8Array(4));
    await assert.rejects(call(), full);
    await call();
  }
  await file.write(0, new Uint8Array(4));
  // The failure has come by the time that the attributes are told.
  await at.root.stat();
  await assert.rejects(file.write(0, new Uint8Array(4)), full);
  await file.flush();
});
