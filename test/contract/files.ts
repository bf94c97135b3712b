/**
 * What any source of files that may be written has to do (lib/wire/files/node.ts), over a real folder. What
 * the source did is looked at on the disk, and what is on the disk through the source.
 */
import assert from "node:assert/strict";
import { decodeRaw } from "../../lib/base/raw_string.ts";
import { type FileNode, OPEN } from "../../lib/wire/files/node.ts";
import { ERRNO } from "../../lib/wire/files/stat.ts";
import { pattern } from "../../lib/wire/testing.ts";
import { fileAttributes } from "./files_attributes.ts";
import {
  bytes,
  content,
  fails,
  type FilesTest,
  list,
  make,
  names,
  readAll,
} from "./files_tools.ts";

export interface FilesOptions {
  ignore: boolean;
  /** The folder at `path`, to be read, or written too; disposed of at the test's end. */
  open(path: string, writable: boolean): Promise<{ root: FileNode } & AsyncDisposable>;
}

/** Registers the suite under `name`. */
export function filesContract(name: string, { ignore, open }: FilesOptions): void {
  const test: FilesTest = (what, fn) =>
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

  fileAttributes(test);

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
