import assert from "node:assert/strict";
import { listEntries } from "./entry_stat.ts";
import { lstat } from "./files.ts";

Deno.test({
  name: "entries are what the runtime's own stat says they are",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const dir = await Deno.makeTempDir({ prefix: "svc-entry-" });
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
      const entries = new Map(listEntries(dir).map(({ name, stat }) => [name, stat]));
      assert.equal(entries.size, 6);
      for (const name of ["file with ü", "other", "folder", "link", "large", "late"]) {
        const info = await Deno.lstat(`${dir}/${name}`);
        const found = entries.get(name);
        // The runtime rounds down to seconds.
        assert.equal(found!.ctime * 1000, info.ctime!.getTime());
        assert.deepEqual(found, {
          mode: info.mode,
          size: info.size,
          nlink: info.nlink,
          ino: info.ino,
          dev: found!.dev,
          mtime: lstat(`${dir}/${name}`).mtime,
          mtimeNs: lstat(`${dir}/${name}`).mtimeNs,
          ctime: found!.ctime,
          ctimeNs: found!.ctimeNs,
        }, name);
      }
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test({
  name: "what cannot be told of an entry is not made up",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const dir = await Deno.makeTempDir({ prefix: "svc-entry-" });
    try {
      await Deno.writeTextFile(`${dir}/early`, "");
      await Deno.utime(`${dir}/early`, -5, -5);
      await Deno.writeTextFile(`${dir}/a`, "");
      const raw = [...new TextEncoder().encode(dir + "/"), 0x66, 0xff, 0];
      const { symbols } = Deno.dlopen("libc.so.6", {
        mkdir: { parameters: ["buffer", "u32"], result: "i32" },
      });
      assert.equal(symbols.mkdir(new Uint8Array(raw), 0o700), 0);
      const entries = listEntries(dir).sort((a, b) => a.name < b.name ? -1 : 1);
      assert.deepEqual(entries.map(({ name, stat }) => [name, stat !== undefined]), [
        ["a", true],
        ["early", false],
        ["f\uFFFD", false],
      ]);
      assert.throws(() => listEntries(`${dir}/a`), { code: "ENOTDIR" });
      assert.throws(() => listEntries(`${dir}/missing`), { code: "ENOENT" });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test({
  name: "a folder of more entries than one call has room for",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const dir = await Deno.makeTempDir({ prefix: "svc-entry-" });
    try {
      const names = Array.from({ length: 1000 }, (_, n) => `${"long-ü-".repeat(20)}${n}`).sort();
      for (const name of names) Deno.writeTextFileSync(`${dir}/${name}`, name.slice(140));
      const entries = listEntries(dir).sort((a, b) => a.name < b.name ? -1 : 1);
      assert.deepEqual(entries.map(({ name }) => name), names);
      for (const { name, stat } of entries) assert.equal(stat?.size, name.length - 140);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});
