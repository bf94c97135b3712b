import assert from "node:assert/strict";
import { join } from "node:path";
import { closeIdleWorkers } from "../../../base/worker_pool.ts";
import { close, open } from "../../../sys/fd.ts";
import { O } from "../../../sys/files.ts";
import { hasFuse, openFuse } from "../../../sys/fuse.ts";
import { canMount } from "../../../sys/mount.ts";
import { findChanges, type OpenRoot, packFile, statFile, unpackFiles } from "./jobs.ts";

async function withTree(fn: (folder: string, root: () => OpenRoot) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  let opened = 0;
  try {
    await fn(folder, () => {
      opened++;
      const fd = open(folder, O.PATH | O.DIRECTORY);
      return {
        fd,
        [Symbol.asyncDispose]: () => {
          opened--;
          return Promise.resolve(close(fd));
        },
      };
    });
    assert.equal(opened, 0, "every root was let go of");
  } finally {
    closeIdleWorkers();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "copies: a mount that does not answer holds up its own copy alone",
  ignore: !hasFuse() || !canMount(),
  // The thread that the mount holds up ends with the mount.
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const hung = join(folder, "hung");
    await Deno.mkdir(hung);
    await Deno.writeTextFile(join(folder, "file"), "1");
    // Nobody serves it.
    const channel = openFuse(hung);
    const root = () => {
      const fd = open(folder, O.PATH | O.DIRECTORY);
      return { fd, [Symbol.asyncDispose]: () => Promise.resolve(close(fd)) };
    };
    try {
      const late = assert.rejects(statFile(root(), "/hung/file"), { code: "timeout" });
      assert.equal((await statFile(root(), "/file"))!.size, 1);
      await late;
      assert.equal((await statFile(root(), "/file"))!.size, 1);
    } finally {
      channel.unmount();
      channel.close();
      closeIdleWorkers();
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("copies: so many at a time; the others are refused and leave nothing open", () =>
  withTree(async (folder, root) => {
    await Deno.writeTextFile(join(folder, "file"), "1");
    const archives = await Promise.all(
      Array.from({ length: 16 }, () => packFile(root(), "/file")),
    );
    await assert.rejects(statFile(root(), "/file"), { code: "unavailable" });
    // A root that cannot be closed then does not end the process.
    const broken = { fd: -1, [Symbol.asyncDispose]: () => Promise.reject(new Error("broken")) };
    const told = console.error;
    const words: string[] = [];
    console.error = (text: string) => void words.push(text);
    try {
      await assert.rejects(statFile(broken, "/file"), { code: "unavailable" });
      await new Promise((resolve) => setTimeout(resolve));
    } finally {
      console.error = told;
    }
    assert.match(words.join(), /cannot let go of a workload's files: broken/);
    for (const { tar } of archives) await tar.cancel();
    assert.equal((await statFile(root(), "/file"))!.size, 1);
    await assert.rejects(packFile(root(), "/none"), { code: "not_found" });
    await assert.rejects(unpackFiles(root(), "/none", new ReadableStream()), { code: "not_found" });
  }));

Deno.test("copies: a workload's folders in each other are bounded", () =>
  withTree(async (folder, root) => {
    let deep = folder;
    for (let depth = 0; depth < 300; depth++) deep += "/d";
    await Deno.mkdir(deep, { recursive: true });
    const { tar } = await packFile(root(), "/d");
    await assert.rejects(new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>).bytes(), {
      code: "too_large",
    });
    await assert.rejects(findChanges(root(), { lower: [], overlay: false, mounted: [] }), {
      code: "too_large",
    });
  }));

Deno.test("changes: of a whole tree; links are not followed, mounts are none", () =>
  withTree((folder, root) =>
    withTree(async (lower) => {
      for (const tree of [lower, folder]) {
        for (const name of ["kept", "etc"]) await Deno.mkdir(join(tree, name));
        for (const name of ["kept/same", "etc/changed", "etc/gone"]) {
          await Deno.writeTextFile(join(tree, name), name);
          await Deno.utime(join(tree, name), 1, 1);
        }
      }
      await Deno.remove(join(folder, "etc/gone"));
      await Deno.writeTextFile(join(folder, "etc/changed"), "longer than before");
      await Deno.symlink("/etc", join(folder, "link"));
      await Deno.mkdir(join(folder, "data/volume"), { recursive: true });
      for (const tree of [lower, folder]) {
        for (const name of ["kept", "etc"]) await Deno.utime(join(tree, name), 1, 1);
      }
      const mounted = ["/data/volume", "/etc/changed"];
      const found = await findChanges(root(), { lower: [lower], overlay: false, mounted });
      assert.deepEqual(found.map(({ path, kind }) => `${kind} ${path}`), [
        "modified /etc/changed",
        "deleted /etc/gone",
        "added /link",
      ]);
    })
  ));

Deno.test("copies: several at once come whole, one after the other", () =>
  withTree(async (folder, root) => {
    const text = "x".repeat(700_000);
    await Deno.writeTextFile(join(folder, "file"), text);
    const copy = async () => {
      const { tar } = await packFile(root(), "/file");
      return (await new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>).bytes()).length;
    };
    const size = await copy();
    assert.ok(size > text.length);
    for (let round = 0; round < 10; round++) {
      const sizes = await Promise.all([copy(), copy(), copy(), copy(), copy()]);
      assert.deepEqual(sizes, sizes.map(() => size));
    }
  }));
