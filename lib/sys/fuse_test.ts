import assert from "node:assert/strict";
import { type FuseNode, type FuseTree, hasFuse, mountFuse } from "./fuse.ts";
import { canMount } from "./mount.ts";

const ignore = !hasFuse() || !canMount();

const command = async (...args: string[]) => {
  const { code, stdout, stderr } = await new Deno.Command(args[0], { args: args.slice(1) })
    .output();
  return { code, text: new TextDecoder().decode(stdout), error: new TextDecoder().decode(stderr) };
};

Deno.test({
  name: "fuse: a tree is listed and read by other processes, and gone when it is unmounted",
  ignore,
  fn: async () => {
    const large = new Uint8Array(700_001).map((_, index) => index * 7);
    const many = new Map(
      Array.from({ length: 3000 }, (_, index) => [`a-name-of-some-length-${index}`, 3]),
    );
    const time = { mtime: 1_700_000_000, mtimeNs: 987_654_321 };
    const nodes: FuseNode[] = [
      {
        kind: "directory",
        mode: 0o755,
        size: 0,
        ...time,
        children: new Map([["dir", 2], ["file", 3], ["link", 4], ["large", 5], ["broken", 6]]),
      },
      { kind: "directory", mode: 0o750, size: 0, ...time, children: many },
      { kind: "file", mode: 0o644, size: 11, ...time },
      { kind: "symlink", mode: 0o777, size: 4, ...time, link: "file" },
      { kind: "file", mode: 0o600, size: large.length, ...time },
      { kind: "file", mode: 0o600, size: 10, ...time },
    ];
    const contents: Record<number, Uint8Array> = {
      3: new TextEncoder().encode("hello fuse\n"),
      5: large,
    };
    let read = 0;
    let open = 0;
    const tree: FuseTree = {
      node: (number) => nodes[number - 1],
      open: (number) => {
        if (!contents[number]) return Promise.reject(new Error("not to be had"));
        open++;
        return Promise.resolve({
          read: (offset, count) => {
            const bytes = contents[number].subarray(offset, offset + count);
            read += bytes.length;
            return Promise.resolve(bytes);
          },
          close: () => Promise.resolve(void open--),
        });
      },
    };
    const target = await Deno.makeTempDir({ prefix: "svc-fuse-" });
    try {
      {
        await using _mounted = mountFuse(target, tree);
        assert.equal((await command("cat", `${target}/link`)).text, "hello fuse\n");
        assert.equal(read, 11);
        const sum = await command("sha256sum", `${target}/large`);
        const digest = await crypto.subtle.digest("SHA-256", large);
        assert.ok(sum.text.startsWith(new Uint8Array(digest).toHex()), sum.error);
        const listed = (await command("ls", `${target}/dir`)).text.trim().split("\n");
        assert.equal(listed.length, 3000);
        const stat = await command("stat", "-c", "%F %a %s %Y", `${target}/large`);
        assert.equal(stat.text, `regular file 600 700001 1700000000\n`);
        assert.notEqual((await command("cat", `${target}/broken`)).code, 0);
        assert.notEqual((await command("cat", `${target}/none`)).code, 0);
        assert.match((await command("sh", "-c", `echo x > ${target}/new`)).error, /[Rr]ead-only/);
      }
      assert.equal(open, 0);
      assert.equal((await command("ls", target)).text, "");
    } finally {
      await Deno.remove(target);
    }
  },
});
