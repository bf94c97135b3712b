/** One file as an export: whoever has the export reaches that file, and nothing beside it. */
import assert from "node:assert/strict";
import { type RemoteNode, remoteRoot } from "../ninep/remote_node.ts";
import { served } from "../ninep/testing.ts";
import { hostSingleFile } from "./host_single_file.ts";
import { OPEN } from "./node.ts";
import { ERRNO } from "./stat.ts";

Deno.test({
  name: "a single file: read and written, also a new one in its place; nothing beside it",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-single-" });
    await Deno.writeTextFile(`${folder}/conf`, "one");
    await Deno.writeTextFile(`${folder}/secret`, "secret");
    await Deno.mkdir(`${folder}/deep`);
    const exported = hostSingleFile(`${folder}/conf`, "file", { writable: true });
    await using ends = await served(exported);
    const { client } = ends;
    const root: RemoteNode = await remoteRoot(client, "", { writable: true });
    const fails = (errno: number, work: Promise<unknown>) => assert.rejects(work, { errno });
    const text = async () => {
      const node = await root.walk("file");
      const file = await node.open(OPEN.RDWR);
      const into = new Uint8Array(20);
      const read = new TextDecoder().decode(into.subarray(0, await file.read(0, into)));
      await file.write(0, new TextEncoder().encode("W"));
      await file.close();
      node.close();
      return read;
    };
    try {
      assert.equal(await text(), "one");
      assert.equal(await Deno.readTextFile(`${folder}/conf`), "Wne");
      await Deno.writeTextFile(`${folder}/next`, "two");
      await Deno.rename(`${folder}/next`, `${folder}/conf`);
      assert.equal(await text(), "two");
      const listed = await root.list();
      assert.deepEqual((await listed.read(0n)).map(({ name }) => name), ["file"]);
      await listed.close();

      for (const name of ["conf", "secret", "deep", "..", "."]) {
        await fails(ERRNO.ENOENT, root.walk(name));
      }
      await fails(ERRNO.EROFS, root.create("new", OPEN.RDWR, 0o644));
      await fails(ERRNO.EROFS, root.create("file", OPEN.RDWR, 0o644));
      await fails(ERRNO.EROFS, root.mkdir("new", 0o755));
      await fails(ERRNO.EROFS, root.symlink("new", "secret"));
      await fails(ERRNO.EROFS, root.remove("file", "other"));
      await fails(ERRNO.EROFS, root.rename("file", root, "new"));
      await fails(ERRNO.EROFS, root.change({ mode: 0o777 }));
      const file = await root.walk("file");
      await fails(ERRNO.ENOTDIR, file.walk("secret"));
      await fails(ERRNO.ENOTDIR, file.mkdir("new", 0o755));
      await fails(ERRNO.EROFS, root.link("new", file));
      file.close();

      // Something else is in its place by now.
      await Deno.remove(`${folder}/conf`);
      await Deno.symlink("secret", `${folder}/conf`);
      await fails(ERRNO.ENOENT, root.walk("file"));
      await Deno.remove(`${folder}/conf`);
      await Deno.rename(`${folder}/deep`, `${folder}/conf`);
      await fails(ERRNO.ENOENT, root.walk("file"));
      const left = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();
      assert.deepEqual(left, ["conf", "secret"]);
      assert.equal(await Deno.readTextFile(`${folder}/secret`), "secret");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
