import assert from "node:assert/strict";
import { join } from "node:path";
import { objectStoreContract } from "../../test/contract/object_store.ts";
import { openFsStore } from "./fs.ts";
import { writeError } from "./fs/io.ts";

objectStoreContract("fs", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-fs-store-" });
  const under = {
    store: await openFsStore(root),
    reopen: async () => {
      await under.store[Symbol.asyncDispose]();
      return await openFsStore(root);
    },
    debris: async () => (await Array.fromAsync(Deno.readDir(join(root, "tmp")))).length,
    cleanup: async () => {
      await under.store[Symbol.asyncDispose]();
      await Deno.remove(root, { recursive: true });
    },
  };
  return under;
}, { durable: true });

async function inFolder(fn: (root: string) => Promise<void>) {
  const root = await Deno.makeTempDir({ prefix: "svc-fs-store-" });
  try {
    await fn(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("fs: temporary files of a killed server are swept, and never listed", () =>
  inFolder(async (root) => {
    await (await openFsStore(root))[Symbol.asyncDispose]();
    await Deno.writeTextFile(join(root, "tmp/999-0"), "torn");
    await using store = await openFsStore(root);
    assert.deepEqual(await Array.fromAsync(store.list("")), []);
    assert.deepEqual(await Array.fromAsync(Deno.readDir(join(root, "tmp"))), []);
  }));

Deno.test("fs: what is not a key's file is not an object", () =>
  inFolder(async (root) => {
    await using store = await openFsStore(root);
    await store.put("a/b", new TextEncoder().encode("b"));
    const foreign = join(root, "objects/a");
    for (const name of ["b~", "é", "two words", "n\nl"]) {
      await Deno.writeTextFile(join(foreign, name), "another's");
    }
    await Deno.symlink("b", join(foreign, "link"));
    await Deno.mkdir(join(foreign, "é é"));
    await Deno.writeTextFile(join(foreign, "é é/c"), "another's");
    const found = await Array.fromAsync(store.list("a/"));
    assert.deepEqual(found.map((entry) => "key" in entry && entry.key), ["a/b"]);
  }));

Deno.test("fs: a folder that cannot be read fails the listing", () =>
  inFolder(async (root) => {
    await using store = await openFsStore(root);
    await store.put("a/b", new TextEncoder().encode("b"));
    await Deno.symlink("loop", join(root, "objects/loop"));
    await assert.rejects(Array.fromAsync(store.list("loop/")), /loop/);
  }));

Deno.test("fs: a second opener is told who holds the store", () =>
  inFolder(async (root) => {
    await using _store = await openFsStore(root);
    await assert.rejects(openFsStore(root), {
      code: "data_dir_locked",
      message: new RegExp(`process ${Deno.pid} `),
    });
  }));

Deno.test("fs: a folder with foreign things in it, or of another format, is left alone", () =>
  inFolder(async (root) => {
    await Deno.writeTextFile(join(root, "thesis.tex"), "mine");
    await assert.rejects(openFsStore(root), { code: "data_dir_foreign", message: /thesis\.tex/ });
    await Deno.remove(join(root, "thesis.tex"));
    await Deno.mkdir(join(root, "lost+found"));
    await (await openFsStore(root))[Symbol.asyncDispose]();
    await Deno.writeTextFile(join(root, "svc-store.json"), '{"format":99}');
    await assert.rejects(openFsStore(root), { code: "data_dir_foreign", message: /format is 99/ });
    await Deno.writeTextFile(join(root, "svc-store.json"), "{");
    await assert.rejects(openFsStore(root), { code: "data_dir_foreign" });
    const file = join(root, "file");
    await Deno.writeTextFile(file, "");
    await assert.rejects(openFsStore(join(file, "x")), { code: "data_dir_foreign" });
  }));

Deno.test("fs: a full disk is storage_full", async () => {
  const full = await Deno.open("/dev/full", { write: true });
  const error = await full.write(new Uint8Array(8)).catch((error) => writeError(error, "store k"));
  full.close();
  assert.equal((error as { code?: string }).code, "storage_full");
});

Deno.test("fs: an object that was cut behind our back is an error, not a short body", () =>
  inFolder(async (root) => {
    await using store = await openFsStore(root);
    await store.put("k", new Uint8Array(100_000));
    const body = await store.get("k");
    await Deno.truncate(join(root, "objects/k"), 4);
    await assert.rejects(Array.fromAsync(body!.stream()), { code: "internal" });
  }));

Deno.test("fs: an upload that was published when the server died cannot grow the object", () =>
  inFolder(async (root) => {
    await using store = await openFsStore(root);
    const upload = await store.uploads.create("u");
    await upload.write(new Uint8Array(4));
    await upload.close();
    // Between the link to the object and the removal of the upload.
    await Deno.link(join(root, "uploads/u"), join(root, "objects/k"));
    assert.equal(await store.uploads.open("u"), undefined);
    assert.equal((await store.stat("k"))?.size, 4);
    assert.deepEqual(await Array.fromAsync(store.uploads.list()), []);
  }));

const mayMount = Deno.uid() === 0 && Deno.build.os === "linux";

Deno.test({
  name: `fs: a full disk refuses the write, keeps what was there and goes on${
    mayMount ? "" : " (needs root)"
  }`,
  ignore: !mayMount && Deno.env.get("CI") !== "true",
}, () =>
  inFolder(async (root) => {
    const run = async (command: string, ...args: string[]) => {
      const { success, stderr } = await new Deno.Command(command, { args }).output();
      assert.ok(success, new TextDecoder().decode(stderr));
    };
    const disk = join(root, "disk");
    await Deno.mkdir(disk);
    await run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk);
    try {
      await using store = await openFsStore(join(disk, "store"));
      await store.put("old", new Uint8Array(100_000));
      const full = { code: "storage_full" };
      await assert.rejects(store.put("k", new Uint8Array(2_000_000)), full);
      await assert.rejects(
        store.put("k", ReadableStream.from([new Uint8Array(900_000), new Uint8Array(900_000)])),
        full,
      );
      assert.equal(await store.get("k"), undefined);
      const upload = await store.uploads.create("u");
      await upload.write(new Uint8Array(200_000).fill(1));
      await assert.rejects(upload.write(new Uint8Array(2_000_000).fill(2)), full);
      assert.equal(upload.offset, 200_000);
      await upload.write(new Uint8Array(100_000).fill(3));
      await upload.commit("after");
      const bytes = new Uint8Array(
        await new Response((await store.get("after"))!.stream() as BodyInit).arrayBuffer(),
      );
      assert.equal(bytes.length, 300_000);
      assert.deepEqual([bytes[199_999], bytes[200_000], bytes[299_999]], [1, 3, 3]);
      assert.equal((await store.stat("old"))?.size, 100_000);
    } finally {
      await run("umount", disk);
    }
  }));

Deno.test("fs: the folder is for its owner alone, one that was open too", () =>
  inFolder(async (folder) => {
    const root = join(folder, "store");
    const mode = async (path: string) => (await Deno.stat(path)).mode! & 0o777;
    await (await openFsStore(root))[Symbol.asyncDispose]();
    assert.equal(await mode(root), 0o700);
    await Deno.chmod(root, 0o755);
    await (await openFsStore(root))[Symbol.asyncDispose]();
    assert.equal(await mode(root), 0o700);
    const foreign = join(folder, "foreign");
    await Deno.mkdir(foreign, { mode: 0o755 });
    await Deno.writeTextFile(join(foreign, "thesis"), "mine");
    await assert.rejects(openFsStore(foreign), { code: "data_dir_foreign" });
    assert.equal(await mode(foreign), 0o755);
  }));
