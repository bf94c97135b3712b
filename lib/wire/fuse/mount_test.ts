import assert from "node:assert/strict";
import { hasFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import { type Listed, ListedNode } from "../files/listed_node.ts";
import { eventually } from "../../../test/waits.ts";
import { mountFuse } from "./mount.ts";

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
    const time = { mtime: 1_700_000_000, mtimeNs: 987_654_321 };
    let [id, read, open] = [0n, 0, 0];
    const node = (
      kind: Listed["kind"],
      mode: number,
      content?: Uint8Array,
      more: Partial<Listed> = {},
    ) =>
      new ListedNode({ kind, mode, size: content?.length ?? 0, ...time, ...more }, {
        id: ++id,
        open: () => {
          if (!content) return Promise.reject(new Error("not to be had"));
          open++;
          return {
            read: (offset, into) => {
              const bytes = content.subarray(offset, offset + into.length);
              into.set(bytes);
              read += bytes.length;
              return bytes.length;
            },
            close: () => void open--,
          };
        },
      });
    const root = node("directory", 0o755);
    const file = node("file", 0o644, new TextEncoder().encode("hello fuse\n"));
    const dir = node("directory", 0o750);
    for (let n = 0; n < 3000; n++) dir.children.set(`a-name-of-some-length-${n}`, file);
    const entries = {
      dir,
      file,
      link: node("symlink", 0o777, undefined, { link: "file" }),
      large: node("file", 0o600, large),
      broken: node("file", 0o600, undefined, { size: 10 }),
    };
    for (const [name, entry] of Object.entries(entries)) root.children.set(name, entry);
    const target = await Deno.makeTempDir({ prefix: "svc-fuse-" });
    try {
      {
        await using _mounted = mountFuse(target, root);
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

Deno.test({
  name: "fuse: its end does not wait for a copy of the mount in another mount namespace",
  ignore,
  fn: async () => {
    const root = new ListedNode({ kind: "directory", mode: 0o755, size: 0, mtime: 0, mtimeNs: 0 }, {
      id: 1n,
      open: () => Promise.reject(new Error("not to be had")),
    });
    const target = await Deno.makeTempDir({ prefix: "svc-fuse-" });
    const mounted = mountFuse(target, root);
    const copy = new Deno.Command("unshare", {
      args: ["--mount", "--propagation", "private", "sh", "-c", "echo begun; read end"],
      ...{ stdin: "piped", stdout: "piped" },
    }).spawn();
    let over = false;
    let disposed: PromiseLike<void> | undefined;
    try {
      for await (const _ of copy.stdout) break;
      disposed = mounted[Symbol.asyncDispose]().then(() => void (over = true));
      await eventually("it has ended", () => Promise.resolve(over));
    } finally {
      await copy.stdin.close();
      await copy.status;
      await disposed;
      await Deno.remove(target);
    }
  },
});
