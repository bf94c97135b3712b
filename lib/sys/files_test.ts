import assert from "node:assert/strict";
import { systemCode } from "../base/errors.ts";
import { readNames, removeTreeSync } from "./directory.ts";
import { errnoName, SystemError } from "./errno.ts";
import * as fd from "./fd.ts";
import * as files from "./files.ts";
import { getXattr, listXattrs, readXattrs, setXattr } from "./xattr.ts";

const linux = Deno.build.os === "linux";
const root = linux && Deno.uid() === 0;
if (!root && Deno.env.get("CI") === "true") throw new Error("these tests need root on Linux");

function test(name: string, fn: (folder: string) => void | Promise<void>, ignore = !linux) {
  Deno.test({ name: `sys: ${name}`, ignore }, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-sys-" });
    try {
      await fn(folder);
    } finally {
      removeTreeSync(folder);
    }
  });
}

const code = (name: string) => (error: unknown) => {
  assert.ok(error instanceof SystemError, String(error));
  assert.equal(systemCode(error), name);
  return true;
};

test("errors have the system's names, however much the engine does meanwhile", (folder) => {
  assert.throws(() => files.lstat(`${folder}/none`), code("ENOENT"));
  assert.throws(() => files.mkdir(folder), code("EEXIST"));
  assert.throws(() => files.rmdir("/proc/self"), code("ENOTDIR"));
  assert.throws(() => files.unlink(`${folder}/a\0b`), code("EINVAL"));
  assert.throws(() => files.unlink(`${folder}/${"x".repeat(300)}`), code("ENAMETOOLONG"));
  assert.throws(() => files.unlink("x".repeat(5000)), code("ENAMETOOLONG"));
  assert.equal(errnoName(999), "E999");
  // Garbage between and in the calls: a stale errno would show as another error.
  for (let i = 0; i < 30_000; i++) {
    const path = `${folder}/${"none".repeat(i % 7)}-${i}`;
    assert.equal(files.tryLstat(path), undefined);
    assert.equal(getXattr(folder, `user.none${i}`), undefined);
  }
});

test("times to the nanosecond, before 1970 too, and of links themselves", (folder) => {
  const path = `${folder}/link`;
  files.symlink("nowhere", path);
  for (const [seconds, nanos] of [[1_234_567_890, 987_654_321], [-5, 1], [5_000_000_000, 0]]) {
    files.setTimes(path, seconds, nanos);
    const { mtime, mtimeNs } = files.lstat(path);
    assert.deepEqual([mtime, mtimeNs], [seconds, nanos]);
  }
  assert.equal(files.readlink(path), "nowhere");
});

test("names that are not UTF-8 survive", (folder) => {
  const name = `a${String.fromCharCode(0xdcff)}é\n`;
  files.mknod(`${folder}/${name}`, files.S_IFREG | 0o644);
  assert.deepEqual(readNames(folder), [name]);
  files.link(`${folder}/${name}`, `${folder}/b`);
  assert.equal(files.lstat(`${folder}/${name}`).nlink, 2);
});

test("a folder of hundreds is listed whole", (folder) => {
  for (let i = 0; i < 800; i++) {
    files.mknod(`${folder}/${"long".repeat(20)}-${i}`, files.S_IFREG | 0o644);
  }
  assert.equal(new Set(readNames(folder)).size, 800);
});

test("attributes: set, listed, read", (folder) => {
  const path = `${folder}/f`;
  Deno.writeTextFileSync(path, "");
  assert.deepEqual(listXattrs(path), []);
  setXattr(path, "user.b", Uint8Array.from([0, 255, 10]));
  setXattr(path, "user.a", new Uint8Array(0));
  assert.deepEqual([...readXattrs(path)].map(([name, value]) => [name, [...value]]), [
    ["user.a", []],
    ["user.b", [0, 255, 10]],
  ]);
});

test("owners and devices", (folder) => {
  const path = `${folder}/dev`;
  files.mknod(path, files.S_IFBLK | 0o600, 259, 70_000);
  files.lchown(path, 123_456, 654_321);
  const stat = files.lstat(path);
  assert.deepEqual([stat.rdevMajor, stat.rdevMinor], [259, 70_000]);
  assert.deepEqual([stat.uid, stat.gid], [123_456, 654_321]);
  assert.equal(stat.mode & files.S_IFMT, files.S_IFBLK);
}, !root);

test("descriptors: holes, reflinks or not, truncation", (folder) => {
  const { O } = files;
  const path = `${folder}/sparse`;
  const file = fd.open(path, O.RDWR | O.CREAT | O.EXCL, 0o600);
  try {
    fd.skip(file, 1 << 20);
    fd.writeAll(file, new TextEncoder().encode("data"));
    fd.truncate(file, 3 << 20);
    assert.equal(fd.seekTo(file, "data", 0), 1 << 20);
    assert.equal(fd.seekTo(file, "data", 2 << 20), undefined);
    fd.seek(file, (1 << 20) + 1);
    const buffer = new Uint8Array(3);
    assert.equal(fd.read(file, buffer), 3);
    assert.equal(new TextDecoder().decode(buffer), "ata");
  } finally {
    fd.close(file);
  }
  assert.equal(files.lstat(path).size, 3 << 20);
  assert.throws(() => fd.open(path, O.WRONLY | O.CREAT | O.EXCL), code("EEXIST"));
});

test("a lock has one holder, and passes on when released", (folder) => {
  const path = `${folder}/lock`;
  {
    using held = fd.tryLock(path);
    assert.ok(held);
    assert.equal(fd.tryLock(path), undefined);
  }
  using again = fd.tryLock(path);
  assert.ok(again);
});

test("the file system can be synced", async (folder) => {
  await fd.syncFileSystem(folder);
});

test("removing a tree follows no links", (folder) => {
  Deno.mkdirSync(`${folder}/kept`);
  Deno.writeTextFileSync(`${folder}/kept/a`, "");
  Deno.mkdirSync(`${folder}/tree/sub`, { recursive: true });
  Deno.symlinkSync(`${folder}/kept`, `${folder}/tree/sub/link`);
  removeTreeSync(`${folder}/tree`);
  removeTreeSync(`${folder}/tree`);
  assert.deepEqual(readNames(folder), ["kept"]);
  assert.deepEqual(readNames(`${folder}/kept`), ["a"]);
});
