/** Modes, times, kinds, attributes and locks of files: a part of their contract (files.ts). */
import assert from "node:assert/strict";
import { chmodSync, statSync } from "node:fs";
import { OPEN } from "../../lib/wire/files/node.ts";
import { ERRNO } from "../../lib/wire/files/stat.ts";
import { pattern } from "../../lib/wire/testing.ts";
import { bytes, fails, type FilesTest, make, names } from "./files_tools.ts";

export function fileAttributes(test: FilesTest): void {
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
}
