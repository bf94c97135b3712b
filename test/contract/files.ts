/**
 * What any source of files that may be written has to do (lib/wire/files/node.ts), over a real folder. What
 * the source did is looked at on the disk, and what is on the disk through the source.
 */
import assert from "node:assert/strict";
import { chmodSync, statSync } from "node:fs";
import { decodeRaw } from "../../lib/base/raw_string.ts";
import {
  ERRNO,
  type FileNode,
  type FolderEntry,
  Listing,
  type NodeWriter,
  OPEN,
  type OpenFile,
} from "../../lib/wire/files/node.ts";
import { pattern } from "../../lib/wire/testing.ts";

export interface FilesOptions {
  ignore: boolean;
  /** The folder at `path`, to be read, or written too; disposed of at the test's end. */
  open(path: string, writable: boolean): Promise<{ root: FileNode } & AsyncDisposable>;
}

interface At {
  /** The folder on the disk. */
  path: string;
  root: FileNode;
  writer: NodeWriter;
}

const bytes = (text: string) => new TextEncoder().encode(text);
const errno = (code: number) => (error: unknown) => (error as { errno?: number }).errno === code;
const fails = (code: number, work: () => unknown) =>
  assert.rejects(async () => await work(), errno(code));

async function readAll(file: OpenFile, size = 1 << 20): Promise<string> {
  const into = new Uint8Array(size);
  return new TextDecoder().decode(into.subarray(0, await file.read(0, into)));
}

async function make(writer: NodeWriter, name: string, text = "", mode = 0o644): Promise<void> {
  const { node, file } = await writer.create(name, OPEN.RDWR | OPEN.EXCL, mode);
  await file.write!(0, bytes(text));
  await file.close();
  node.close();
}

async function content(root: FileNode, name: string): Promise<string> {
  const node = await root.walk(name);
  const file = await node.open(0);
  const text = await readAll(file);
  await file.close();
  node.close();
  return text;
}

/** All names, in parts of at most `most`. */
async function list(node: FileNode, most = Infinity, between = () => {}): Promise<FolderEntry[]> {
  const folder = await node.list();
  const listing = new Listing(folder, node.id);
  const entries: FolderEntry[] = [];
  for (let at = 0n;;) {
    const before = entries.length;
    await listing.take(at, (entry) => {
      if (entries.length - before >= most) return false;
      entries.push(entry);
      return true;
    });
    if (entries.length === before) break;
    at = entries.at(-1)!.next;
    between();
  }
  await folder.close();
  return entries.filter(({ name }) => name !== "." && name !== "..");
}

const names = async (node: FileNode) => (await list(node)).map(({ name }) => name).sort();

/** Registers the suite under `name`. */
export function filesContract(name: string, { ignore, open }: FilesOptions): void {
  const test = (what: string, fn: (at: At) => Promise<void>) =>
    Deno.test({
      name: `${name}: ${what}`,
      ignore,
      fn: async () => {
        const path = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-files-" }));
        try {
          await using opened = await open(path, true);
          await fn({ path, root: opened.root, writer: opened.root.writer! });
        } finally {
          await Deno.remove(path, { recursive: true });
        }
      },
    });

  test("a file is made, written at offsets, read and cut", async ({ path, root, writer }) => {
    const { node, file } = await writer.create("file", OPEN.RDWR, 0o666);
    assert.equal(await file.write!(0, bytes("hello world")), 11);
    assert.equal(await file.write!(6, bytes("there")), 5);
    assert.equal(Deno.readTextFileSync(`${path}/file`), "hello there");
    assert.equal(Deno.statSync(`${path}/file`).mode! & 0o7777, 0o666, "the umask is the client's");
    await file.truncate!(5);
    assert.equal(await readAll(file), "hello");
    await file.write!(10, bytes("x"));
    assert.equal(await readAll(file), "hello\0\0\0\0\0x");
    await node.writer!.change({ size: 2 });
    await file.sync?.(true);
    assert.equal((await node.stat()).size, 2);
    await file.close();
    node.close();
    assert.equal(await content(root, "file"), "he");
    await fails(ERRNO.EEXIST, () => writer.create("file", OPEN.RDWR | OPEN.EXCL, 0o644));
    const again = await writer.create("file", OPEN.RDWR | OPEN.TRUNC, 0o644);
    assert.equal((await again.node.stat()).size, 0);
    await again.file.close();
    again.node.close();
  });

  test("large contents survive in both directions", async ({ path, root, writer }) => {
    const large = pattern(3_000_001);
    const { node, file } = await writer.create("large", OPEN.WRONLY, 0o644);
    for (let at = 0; at < large.length; at += 700_000) {
      await file.write!(at, large.slice(at, at + 700_000));
    }
    await file.close();
    node.close();
    assert.deepEqual(Deno.readFileSync(`${path}/large`), large);
    const read = await root.walk("large");
    const opened = await read.open(0);
    const into = new Uint8Array(4_000_000);
    assert.equal(await opened.read(0, into), large.length);
    assert.deepEqual(into.subarray(0, large.length), large);
    assert.equal(await opened.read(large.length, into), 0);
    await opened.close();
    read.close();
  });

  test("folders, links, names and their removal", async ({ path, root, writer }) => {
    (await writer.mkdir("dir", 0o751)).close();
    assert.equal(Deno.statSync(`${path}/dir`).mode! & 0o7777, 0o751);
    (await writer.symlink("link", "../out/of/here")).close();
    await make(writer, "file", "text", 0o600);
    const [dir, file, link] = await Promise.all(
      ["dir", "file", "link"].map(async (name) => await root.walk(name)),
    );
    assert.deepEqual([dir.kind, file.kind, link.kind], ["directory", "file", "symlink"]);
    assert.equal(await link.readlink(), "../out/of/here");
    await dir.writer!.link("second", file);
    assert.equal((await file.stat()).nlink, 2);
    const second = await dir.walk("second");
    assert.equal(second.id, file.id, "one file has one number");
    assert.deepEqual(await names(root), ["dir", "file", "link"]);
    await fails(ERRNO.ENOTEMPTY, () => writer.remove("dir", "folder"));
    await fails(ERRNO.EISDIR, () => writer.remove("dir", "other"));
    await fails(ERRNO.ENOTDIR, () => writer.remove("file", "folder"));
    await fails(ERRNO.EEXIST, () => writer.mkdir("dir", 0o755));
    await dir.writer!.remove("second", "other");
    await writer.remove("dir", "folder");
    await writer.remove("file", "other");
    await writer.remove("link", "other");
    assert.deepEqual(await names(root), []);
    await fails(ERRNO.ENOENT, () => root.walk("file"));
    await fails(ERRNO.ENOENT, () => writer.remove("file", "other"));
    for (const node of [dir, file, link, second]) node.close();
  });

  test("a file that is open lives on when it is removed or replaced", async ({ path, root, writer }) => {
    const { node, file } = await writer.create("file", OPEN.RDWR, 0o644);
    await file.write!(0, bytes("old"));
    await make(writer, "new", "new");
    await writer.rename("new", root, "file");
    assert.equal(await content(root, "file"), "new");
    assert.equal(await readAll(file), "old");
    await file.write!(3, bytes("er"));
    assert.equal((await node.stat()).nlink, 0);
    assert.equal(await readAll(file), "older");
    await writer.remove("file", "other");
    assert.equal((await node.stat()).size, 5);
    await file.close();
    node.close();
    assert.deepEqual(Array.from(Deno.readDirSync(path)), []);
  });

  test("a node stays what it is wherever it is moved", async ({ path, writer }) => {
    const a = await writer.mkdir("a", 0o755);
    const b = await writer.mkdir("b", 0o755);
    await make(a.writer!, "file", "text");
    await writer.rename("a", b, "moved");
    assert.equal(await content(a, "file"), "text");
    await make(a.writer!, "other", "more");
    assert.equal(Deno.readTextFileSync(`${path}/b/moved/other`), "more");
    await Deno.rename(`${path}/b/moved`, `${path}/elsewhere`);
    await Deno.mkdir(`${path}/b/moved`);
    assert.deepEqual(await names(a), ["file", "other"]);
    await fails(ERRNO.EINVAL, () => writer.rename("b", b, "within"));
    a.close();
    b.close();
  });

  test("modes and times", async ({ path, root, writer }) => {
    await make(writer, "file", "text");
    const node = await root.walk("file");
    await node.writer!.change({ mode: 0o4711 });
    assert.equal(statSync(`${path}/file`).mode & 0o7777, 0o711, "no program of somebody else's");
    await node.writer!.change({ mode: 0o2444 });
    assert.equal(statSync(`${path}/file`).mode & 0o7777, 0o444);
    const time = { s: 1_700_000_000, ns: 123_456_789 };
    await node.writer!.change({ mtime: time });
    assert.deepEqual((await node.stat()).mtime, time);
    await node.writer!.change({ atime: { s: -7, ns: 5 }, mtime: "now" });
    const { atime, mtime } = await node.stat();
    assert.deepEqual(atime, { s: -7, ns: 5 });
    assert.ok(Math.abs(mtime.s - Date.now() / 1000) < 100);
    const { uid, gid } = await node.stat();
    await node.writer!.change({ uid, gid });
    await fails(ERRNO.EPERM, () => node.writer!.change({ uid: uid + 1 }));
    await fails(ERRNO.EPERM, () => node.writer!.change({ gid: gid + 1 }));
    node.close();
    const folder = await writer.mkdir("folder", 0o2775);
    await folder.writer!.change({ mode: 0o3770, mtime: time });
    assert.equal(statSync(`${path}/folder`).mode & 0o7777, 0o3770);
    folder.close();
    const link = await writer.symlink("link", "file");
    await link.writer!.change({ mtime: time });
    assert.deepEqual((await link.stat()).mtime, time);
    assert.notEqual(Math.floor(statSync(`${path}/file`).mtimeMs / 1000), time.s);
    await fails(ERRNO.EOPNOTSUPP, () => link.writer!.change({ mode: 0o600 }));
    link.close();
  });

  test("what runs as somebody else does so no more once it is written to", async ({ path, root }) => {
    for (const way of ["open", "truncate", "cut"]) {
      await Deno.writeTextFile(`${path}/program`, "x");
      chmodSync(`${path}/program`, 0o6755);
      const node = await root.walk("program");
      if (way === "truncate") await node.writer!.change({ size: 0 });
      else {
        const flags = way === "open" ? OPEN.WRONLY : OPEN.WRONLY | OPEN.TRUNC;
        const file = await node.open(flags);
        await file.write!(0, bytes("evil"));
        await file.close();
      }
      assert.equal(statSync(`${path}/program`).mode & 0o7777, 0o755, way);
      node.close();
    }
  });

  test("no devices are made, and no file opens what is none", async ({ path, root, writer }) => {
    await fails(ERRNO.EPERM, () => writer.mknod("null", 0o020666));
    await fails(ERRNO.EPERM, () => writer.mknod("disk", 0o060666));
    (await writer.mknod("pipe", 0o010644)).close();
    (await writer.mknod("socket", 0o140644)).close();
    (await writer.mknod("plain", 0o100644)).close();
    assert.ok(Deno.lstatSync(`${path}/pipe`).isFifo);
    const pipe = await root.walk("pipe");
    assert.equal((await pipe.stat()).mode & 0o170000, 0o010000);
    await fails(ERRNO.ENXIO, () => pipe.open(OPEN.WRONLY));
    await fails(ERRNO.ENXIO, () => writer.create("pipe", OPEN.RDWR, 0o644));
    pipe.close();
    assert.deepEqual(await names(root), ["pipe", "plain", "socket"]);
  });

  test("links are never followed, whatever is done", async ({ path, root, writer }) => {
    const outside = await Deno.makeTempDir({ prefix: "svc-outside-" });
    try {
      await Deno.writeTextFile(`${outside}/secret`, "secret");
      await Deno.symlink(outside, `${path}/out`);
      await Deno.symlink(`${outside}/secret`, `${path}/file`);
      const [out, file] = [await root.walk("out"), await root.walk("file")];
      await fails(ERRNO.ELOOP, () => file.open(0));
      await fails(ERRNO.ELOOP, () => file.open(OPEN.WRONLY | OPEN.TRUNC));
      await fails(ERRNO.ELOOP, () => writer.create("file", OPEN.RDWR, 0o644));
      await fails(ERRNO.EINVAL, () => file.writer!.change({ size: 0 }));
      await fails(ERRNO.EOPNOTSUPP, () => file.writer!.change({ mode: 0o777 }));
      await fails(ERRNO.ENOTDIR, () => out.walk("secret"));
      await fails(ERRNO.ENOTDIR, () => out.list());
      await fails(ERRNO.ENOTDIR, () => out.writer!.create("new", OPEN.RDWR, 0o644));
      await fails(ERRNO.ENOTDIR, () => out.writer!.mkdir("new", 0o755));
      await fails(ERRNO.ENOTDIR, () => out.writer!.symlink("new", "x"));
      await fails(ERRNO.ENOTDIR, () => out.writer!.mknod("new", 0o010644));
      await fails(ERRNO.ENOTDIR, () => out.writer!.remove("secret", "other"));
      await fails(ERRNO.ENOTDIR, () => out.writer!.rename("secret", root, "mine"));
      await make(writer, "mine");
      await fails(ERRNO.ENOTDIR, () => writer.rename("mine", out, "new"));
      const mine = await root.walk("mine");
      await fails(ERRNO.ENOTDIR, () => out.writer!.link("new", mine));
      for (const name of ["..", ".", "", "/etc", "../x", "a/b", "nul\0"]) {
        await fails(ERRNO.ENOENT, () => root.walk(name));
        await fails(ERRNO.ENOENT, () => writer.create(name, OPEN.RDWR, 0o644));
        await fails(ERRNO.ENOENT, () => writer.mkdir(name, 0o755));
        await fails(ERRNO.ENOENT, () => writer.symlink(name, "x"));
        await fails(ERRNO.ENOENT, () => writer.mknod(name, 0o010644));
        await fails(ERRNO.ENOENT, () => writer.link(name, mine));
        await fails(ERRNO.ENOENT, () => writer.remove(name, "other"));
        await fails(ERRNO.ENOENT, () => writer.remove(name, "folder"));
        await fails(ERRNO.ENOENT, () => writer.rename(name, root, "x"));
        await fails(ERRNO.ENOENT, () => writer.rename("mine", root, name));
      }
      await fails(ERRNO.ENAMETOOLONG, () => writer.mkdir("x".repeat(256), 0o755));
      // A name of a link itself may be given, and its file is not touched.
      await writer.link("second", file);
      assert.equal(Deno.readLinkSync(`${path}/second`), `${outside}/secret`);
      assert.deepEqual(Array.from(Deno.readDirSync(outside), ({ name }) => name), ["secret"]);
      assert.equal(Deno.readTextFileSync(`${outside}/secret`), "secret");
      for (const node of [out, file, mine]) node.close();
    } finally {
      await Deno.remove(outside, { recursive: true });
    }
  });

  test("names of any bytes", async ({ path, root, writer }) => {
    const odd = [
      "white space ",
      "new\nline",
      'quote"\\back',
      "Ünïcødé 🎉",
      "-rf",
      "a".repeat(255),
      "é".repeat(127),
      decodeRaw(Uint8Array.of(0xff, 0x80, 0x41)),
    ];
    for (const name of odd) await make(writer, name, name.slice(0, 3));
    assert.deepEqual(await names(root), [...odd].sort());
    for (const name of odd) (await root.walk(name)).close();
    const sum = await new Deno.Command("sh", { args: ["-c", 'ls -f "$1" | wc -l', "sh", path] })
      .output();
    assert.ok(Number(new TextDecoder().decode(sum.stdout)) >= odd.length);
    await writer.rename(odd.at(-1)!, root, decodeRaw(Uint8Array.of(0xfe)));
    for (const { name } of await list(root)) await writer.remove(name, "other");
    assert.deepEqual(await names(root), []);
    const target = decodeRaw(Uint8Array.of(0x2f, 0xff));
    const link = await writer.symlink("link", target);
    assert.equal(await link.readlink(), target);
    link.close();
  });

  test("many append at once, and nothing is lost", async ({ path, writer }) => {
    await make(writer, "log");
    const writers = Array.from({ length: 8 }, async (_, number) => {
      const { node, file } = await writer.create("log", OPEN.WRONLY | OPEN.APPEND, 0o644);
      for (let line = 0; line < 100; line++) {
        await file.write!(0, bytes(`${number}:${line}\n`));
      }
      await file.close();
      node.close();
    });
    await Promise.all(writers);
    const lines = Deno.readTextFileSync(`${path}/log`).trim().split("\n");
    assert.equal(new Set(lines).size, 800);
    assert.equal(lines.length, 800);
  });

  test("many make the same file at once: one of them does", async ({ root, writer }) => {
    for (let turn = 0; turn < 20; turn++) {
      const made = await Promise.allSettled(
        Array.from({ length: 8 }, async () => {
          const { node, file } = await writer.create(`f${turn}`, OPEN.RDWR | OPEN.EXCL, 0o644);
          await file.close();
          node.close();
        }),
      );
      assert.equal(made.filter(({ status }) => status === "fulfilled").length, 1);
    }
    assert.equal((await list(root)).length, 20);
  });

  test("a listing of 10,000 entries, while they change", async ({ path, writer }) => {
    const many = await writer.mkdir("many", 0o755);
    for (let n = 0; n < 10_000; n++) Deno.writeTextFileSync(`${path}/many/stays-${n}`, "");
    let turn = 0;
    const listed = await list(many, 1000, () => {
      Deno.writeTextFileSync(`${path}/many/comes-${turn}`, "");
      if (turn % 2 === 1) Deno.removeSync(`${path}/many/comes-${turn - 1}`);
      turn++;
    });
    const seen = listed.map(({ name }) => name).filter((name) => name.startsWith("stays"));
    assert.equal(seen.length, 10_000, "each once");
    assert.equal(new Set(seen).size, 10_000);
    // And again from any place of it.
    const folder = await many.list();
    const after = await folder.read(listed[5000].next);
    assert.equal(after[0].name, listed[5001].name);
    await folder.close();
    many.close();
  });

  test("attributes of the user's own, and no others", async ({ root, writer }) => {
    await make(writer, "file", "text");
    const node = await root.walk("file");
    const own = node.writer!;
    assert.deepEqual(await node.listXattrs!(), []);
    await own.setXattr("user.one", bytes("value"), 0);
    await own.setXattr("user.large", pattern(3000), 0);
    await own.setXattr("user.empty", new Uint8Array(0), 0);
    assert.deepEqual((await node.listXattrs!()).toSorted(), [
      "user.empty",
      "user.large",
      "user.one",
    ]);
    assert.equal(new TextDecoder().decode(await node.getXattr!("user.one")), "value");
    assert.deepEqual((await node.getXattr!("user.large")).slice(), pattern(3000));
    assert.equal((await node.getXattr!("user.empty")).length, 0);
    await fails(ERRNO.EEXIST, () => own.setXattr("user.one", bytes("x"), 1));
    await own.removeXattr("user.one");
    await fails(ERRNO.ENODATA, () => node.getXattr!("user.one"));
    await fails(ERRNO.ENODATA, () => own.removeXattr("user.one"));
    for (const name of ["security.capability", "trusted.x", "system.posix_acl_access", "user."]) {
      await fails(ERRNO.EOPNOTSUPP, () => own.setXattr(name, bytes("x"), 0));
      await fails(ERRNO.EOPNOTSUPP, () => node.getXattr!(name));
      await fails(ERRNO.EOPNOTSUPP, () => own.removeXattr(name));
    }
    node.close();
  });

  test("locks of ranges are seen by others", async ({ root, writer }) => {
    await make(writer, "file", "0123456789");
    const node = await root.walk("file");
    const [a, b] = [await node.open(OPEN.RDWR), await node.open(OPEN.RDWR)];
    const range = (
      type: "read" | "write" | "none",
      start: number,
      length: number,
      owner: string,
    ) => ({ type, start: BigInt(start), length: BigInt(length), owner });
    assert.equal(await a.lock!(range("write", 0, 5, "one")), true);
    assert.equal(await b.lock!(range("read", 4, 2, "two")), false);
    assert.equal(await b.lock!(range("write", 5, 2, "two")), true);
    const found = await b.lockInTheWay!(range("write", 0, 0, "two"));
    assert.deepEqual([found?.type, found?.start, found?.length], ["write", 0n, 5n]);
    assert.equal(await a.lockInTheWay!(range("write", 0, 5, "one")), undefined);
    // One owner by two open files is still one owner, and gives up by either.
    assert.equal(await b.lock!(range("write", 0, 5, "one")), true);
    assert.equal(await b.lock!(range("none", 0, 0, "one")), true);
    assert.equal(await b.lock!(range("read", 0, 5, "two")), true);
    await b.close();
    assert.equal(await a.lock!(range("write", 0, 0, "one")), true, "closed, its locks are gone");
    await a.close();
    node.close();
  });

  test("5,000 files are open at once", async ({ root, writer }) => {
    await make(writer, "file", "text");
    const node = await root.walk("file");
    const files = await Promise.all(
      Array.from({ length: 5000 }, async () => await node.open(0)),
    );
    const texts = await Promise.all(files.map((file) => readAll(file, 10)));
    assert.ok(texts.every((text) => text === "text"));
    await Promise.all(files.map((file) => file.close()));
    node.close();
  });

  Deno.test({
    name: `${name}: nothing is written to what is read-only`,
    ignore,
    fn: async () => {
      const path = await Deno.makeTempDir({ prefix: "svc-files-" });
      await Deno.writeTextFile(`${path}/file`, "text");
      await new Deno.Command("mkfifo", { args: [`${path}/pipe`] }).output();
      try {
        await using opened = await open(path, false);
        const { root } = opened;
        assert.equal(root.writer, undefined);
        const file = await root.walk("file");
        for (const flags of [OPEN.WRONLY, OPEN.RDWR, OPEN.TRUNC, OPEN.CREAT]) {
          await fails(ERRNO.EROFS, () => file.open(flags));
        }
        assert.deepEqual(await names(root), ["file"]);
        await fails(ERRNO.ENOENT, () => root.walk("pipe"));
        file.close();
      } finally {
        await Deno.remove(path, { recursive: true });
      }
    },
  });
}
