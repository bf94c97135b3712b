import assert from "node:assert/strict";
import { entryStat } from "./entry_stat.ts";
import { close, open } from "./fd.ts";
import { O } from "./files.ts";

const O_PATH = 0o10000000;

Deno.test({
  name: "entries are what the runtime's own stat says they are",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const dir = await Deno.makeTempDir({ prefix: "svc-entry-" });
    const fd = open(dir, O_PATH | O.DIRECTORY);
    try {
      await Deno.writeTextFile(`${dir}/file with ü`, "text");
      await Deno.link(`${dir}/file with ü`, `${dir}/other`);
      await Deno.utime(`${dir}/other`, 1_234_567_890.123, 987_654_321.456);
      await Deno.mkdir(`${dir}/folder`);
      await Deno.symlink("folder", `${dir}/link`);
      await Deno.writeTextFile(`${dir}/large`, "");
      await Deno.truncate(`${dir}/large`, 5_000_000_000);
      await Deno.writeTextFile(`${dir}/late`, "");
      await Deno.utime(`${dir}/late`, 2, 5_000_000_000);
      for (const name of ["file with ü", "other", "folder", "link", "large", "late"]) {
        const info = await Deno.lstat(`${dir}/${name}`);
        const found = entryStat(fd, name);
        // The runtime rounds down to seconds.
        assert.equal(Math.floor(found!.ctime / 1000) * 1000, info.ctime!.getTime());
        assert.deepEqual(found, {
          mode: info.mode,
          size: info.size,
          nlink: info.nlink,
          ino: info.ino,
          mtime: info.mtime!.getTime(),
          ctime: found!.ctime,
        }, name);
      }
    } finally {
      close(fd);
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test({
  name: "what cannot be told of an entry is not made up",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const dir = await Deno.makeTempDir({ prefix: "svc-entry-" });
    const fd = open(dir, O_PATH | O.DIRECTORY);
    try {
      await Deno.writeTextFile(`${dir}/early`, "");
      await Deno.utime(`${dir}/early`, -5, -5);
      await Deno.writeTextFile(`${dir}/a`, "");
      for (const name of ["early", "missing", "a\0b", "\udc80", "x".repeat(256), "a/b"]) {
        assert.equal(entryStat(fd, name), undefined, JSON.stringify(name));
      }
    } finally {
      close(fd);
      await Deno.remove(dir, { recursive: true });
    }
  },
});
