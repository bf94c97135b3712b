import assert from "node:assert/strict";
import { close, open, read, writeAll } from "./fd.ts";
import { O, statFd } from "./files.ts";
import { OpenFolder } from "./open_folder.ts";
import { hasXattrs, setXattr } from "./xattr.ts";

const linux = (name: string, fn: (dir: string) => void) =>
  Deno.test({
    name,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      const dir = await Deno.makeTempDir({ prefix: "svc-folder-" });
      try {
        fn(dir);
      } finally {
        await Deno.remove(dir, { recursive: true });
      }
    },
  });

linux("a folder's entries by their names, from one folder to the next and back", (dir) => {
  for (const name of ["a", "b"]) Deno.mkdirSync(`${dir}/${name}`);
  using folder = new OpenFolder();
  const made = folder.at(`${dir}/a`).open("file", O.WRONLY | O.CREAT | O.EXCL, 0o640);
  writeAll(made, new TextEncoder().encode("text"));
  assert.equal(statFd(made).size, 4);
  close(made);
  assert.equal(folder.lstat("file").mode & 0o7777, 0o640);
  assert.equal(folder.at(`${dir}/b`).tryLstat("file"), undefined);
  assert.throws(() => folder.lstat("file"), { code: "ENOENT", path: `${dir}/b/file` });
  assert.throws(() => folder.open("file", O.RDONLY), { code: "ENOENT" });
  folder.close();
  const found = folder.at(`${dir}/a`).open("file", O.RDONLY);
  assert.equal(read(found, new Uint8Array(9)), 4);
  close(found);
});

linux("a folder that is closed and meant again is the one that is there then", (dir) => {
  Deno.mkdirSync(`${dir}/a`);
  using folder = new OpenFolder();
  assert.equal(folder.at(`${dir}/a`).tryLstat("file"), undefined);
  folder.close();
  Deno.renameSync(`${dir}/a`, `${dir}/b`);
  Deno.mkdirSync(`${dir}/a`);
  Deno.writeTextFileSync(`${dir}/a/file`, "");
  assert.ok(folder.at(`${dir}/a`).tryLstat("file"));
});

linux("an open file tells whether it has attributes", (dir) => {
  Deno.writeTextFileSync(`${dir}/file`, "");
  const fd = open(`${dir}/file`, O.RDONLY);
  try {
    assert.equal(hasXattrs(fd), false);
    setXattr(`${dir}/file`, "user.a", new Uint8Array([1]));
    assert.equal(hasXattrs(fd), true);
  } finally {
    close(fd);
  }
});
