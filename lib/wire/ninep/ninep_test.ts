import assert from "node:assert/strict";
import fc from "fast-check";
import { SvcError } from "../../base/errors.ts";
import { ERRNO, FileError } from "../files/stat.ts";
import { duplexPair, pattern, readAll, RUNS, SEED } from "../testing.ts";
import { ConfinedFolder } from "../files/folder.ts";
import { folderNode } from "../files/folder_node.ts";
import { PathNode } from "../files/path_node.ts";
import { NinepClient } from "./client.ts";
import { MessageReader, NO_FID, RLERROR, T, VERSION, Writer } from "./messages.ts";
import { serveNinep } from "./server.ts";

const refused = (error: unknown) => error instanceof SvcError && error.code === "upstream_failed";
const errno = (code: number) => (error: unknown) =>
  error instanceof FileError && error.errno === code;
const links = { ignore: Deno.build.os === "windows" };

interface Served extends AsyncDisposable {
  root: string;
  outside: string;
  client: NinepClient;
  folder: ConfinedFolder;
}

/** `byPath`: as on systems that have no calls below descriptors. */
async function served(
  { visible, byPath = false }: { visible?: (path: string) => boolean; byPath?: boolean } = {},
): Promise<Served> {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-9p-" }));
  const [root, outside] = [`${base}/root`, `${base}/outside`];
  await Deno.mkdir(`${root}/a/b`, { recursive: true });
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${outside}/secret`, "secret");
  await Deno.writeTextFile(`${root}/a/b/file`, "content");
  await Deno.writeFile(`${root}/large`, pattern(3_000_001));
  await Deno.writeTextFile(`${root}/empty`, "");
  const folder = new ConfinedFolder(root, { visible });
  const [here, there] = duplexPair();
  const node = byPath ? new PathNode(folder, []) : folderNode(folder);
  const serving = serveNinep(there, new Map([["context", node]]));
  const client = await NinepClient.connect(here);
  return {
    root,
    outside,
    client,
    folder,
    async [Symbol.asyncDispose]() {
      await here.closeWrite();
      await serving;
      node.close();
      folder[Symbol.dispose]();
      await Deno.remove(base, { recursive: true });
    },
  };
}

async function content(client: NinepClient, root: number, path: string, size: number) {
  const chunks = client.readFile(root, path.split("/"), size);
  return await readAll({ read: async () => (await chunks.next()).value ?? undefined });
}

const text = async (...args: Parameters<typeof content>) =>
  new TextDecoder().decode(await content(...args));

async function names(client: NinepClient, fid: number): Promise<string[]> {
  await client.open(fid);
  const names: string[] = [];
  for (let at = 0n;;) {
    const entries = await client.readdir(fid, at);
    if (entries.length === 0) return names.sort();
    names.push(...entries.map(({ name }) => name));
    at = entries.at(-1)!.next;
  }
}

const wayOf = (byPath: boolean) => byPath ? "by path" : "as this system has them";

for (const byPath of [false, true]) {
  Deno.test(`9p: files, folders and their attributes, ${wayOf(byPath)}`, async () => {
    await using at = await served({ byPath });
    const { client } = at;
    const root = await client.attach("context");
    assert.deepEqual(await names(client, await client.walk(root, [])), ["a", "empty", "large"]);
    assert.equal(await text(client, root, "a/b/file", 7), "content");
    assert.equal(await text(client, root, "a/b/file", 4), "cont");
    assert.equal(await text(client, root, "a/b/file", 100), "content");
    assert.equal(await text(client, root, "empty", 0), "");
    assert.deepEqual(await content(client, root, "large", 3_000_001), pattern(3_000_001));
    assert.deepEqual(await content(client, root, "large", 4_000_000), pattern(3_000_001));
    const fid = await client.walk(root, ["large"]);
    const { size, mode, mtime } = await client.getattr(fid);
    const info = await Deno.stat(`${at.root}/large`);
    assert.deepEqual([Number(size), mode & 0o170000], [3_000_001, 0o100000]);
    assert.equal(mtime.s, Math.floor(info.mtime!.getTime() / 1000));
    await Deno.utime(`${at.root}/large`, new Date(-5500), new Date(-5500));
    const before = await client.getattr(fid);
    assert.deepEqual(before.mtime, { s: -6, ns: 500_000_000 });
    await client.clunk(fid);
    await assert.rejects(client.getattr(fid), errno(ERRNO.EBADF));
    await assert.rejects(client.walk(root, ["a", "none"]), errno(ERRNO.ENOENT));
    await assert.rejects(client.attach("other"), errno(ERRNO.ENOENT));
  });
}

Deno.test("9p: many files at once, deep paths and long listings", async () => {
  await using at = await served();
  const deep = Array.from({ length: 40 }, (_, index) => `d${index}`);
  await Deno.mkdir([at.root, ...deep].join("/"), { recursive: true });
  await Deno.writeTextFile([at.root, ...deep, "file"].join("/"), "deep");
  await Deno.mkdir(`${at.root}/many`);
  for (let index = 0; index < 3000; index++) {
    Deno.writeTextFileSync(`${at.root}/many/a-rather-long-name-of-a-file-${index}`, `${index}`);
  }
  const root = await at.client.attach("context");
  assert.equal(await text(at.client, root, [...deep, "file"].join("/"), 4), "deep");
  const listed = await names(at.client, await at.client.walk(root, ["many"]));
  assert.equal(listed.length, 3000);
  const texts = await Promise.all(
    listed.slice(0, 300).map((name) => text(at.client, root, `many/${name}`, 10)),
  );
  assert.deepEqual(texts, listed.slice(0, 300).map((name) => name.split("-").at(-1)));
});

for (const byPath of [false, true]) {
  Deno.test({ name: `9p: no way leads out of the root, ${wayOf(byPath)}`, ...links }, async () => {
    await using at = await served({ byPath });
    await Deno.symlink("../outside", `${at.root}/out`);
    await Deno.symlink(`${at.outside}/secret`, `${at.root}/absolute`);
    await Deno.symlink("loop", `${at.root}/loop`);
    await new Deno.Command("mkfifo", { args: [`${at.root}/pipe`] }).output();
    const { client, folder } = at;
    const root = await client.attach("context");
    for (
      const path of [["out", "secret"], ["absolute", "x"], ["loop", "x"], ["a", "b", "file", "x"]]
    ) {
      await assert.rejects(client.walk(root, path), FileError, path.join("/"));
      await assert.rejects(content(client, root, path.join("/"), 9), FileError);
    }
    const link = await client.walk(root, ["absolute"]);
    assert.equal(await client.readlink(link), `${at.outside}/secret`);
    await assert.rejects(client.open(link), errno(ERRNO.ELOOP));
    await assert.rejects(content(client, root, "absolute", 6), errno(ERRNO.ELOOP));
    for (const name of ["..", "../outside", "/etc", "", "a/b", "pipe", "nul\0"]) {
      await assert.rejects(client.walk(root, [name]), errno(ERRNO.ENOENT), JSON.stringify(name));
    }
    assert.throws(() => folder.stat(["..", "outside"]), errno(ERRNO.ENOENT));
    assert.deepEqual(await names(client, root), ["a", "absolute", "empty", "large", "loop", "out"]);
  });
}

Deno.test(
  { name: "9p: a folder exchanged for a link between two steps leads nowhere", ...links },
  async () => {
    await using at = await served();
    const { client } = at;
    const root = await client.attach("context");
    const folder = await client.walk(root, ["a", "b"]);
    const file = await client.walk(root, ["a", "b", "file"]);
    await Deno.rename(`${at.root}/a/b`, `${at.root}/a/c`);
    await Deno.symlink(at.outside, `${at.root}/a/b`);
    await Deno.writeTextFile(`${at.outside}/file`, "secret");
    // What was walked to is what it was, whatever stands in its place now.
    if (Deno.build.os === "linux") {
      await client.open(file);
      assert.equal(new TextDecoder().decode(await client.read(file, 0, 20)), "content");
      assert.deepEqual(await names(client, folder), ["file"]);
    }
    await assert.rejects(client.walk(folder, ["secret"]), FileError);
    await assert.rejects(client.walk(root, ["a", "b", "file"]), FileError);
    // While another process goes on exchanging them, nothing of the other side is ever read.
    const script = 'cd "$1" && while test -e ../go; do ln -sfn ../outside x; rm x; mkdir x; ' +
      "echo inside > x/secret; rm -r x; done";
    await Deno.writeTextFile(`${at.root}/../go`, "");
    const swapper = new Deno.Command("sh", { args: ["-c", script, "sh", at.root] }).spawn();
    try {
      let inside = 0;
      for (let turn = 0; turn < 3000 || inside === 0; turn++) {
        try {
          const found = await text(client, root, "x/secret", 20);
          assert.ok(found === "inside\n" || found === "", found);
          if (found !== "") inside++;
        } catch (error) {
          if (!(error instanceof FileError)) throw error;
        }
      }
    } finally {
      // Killed, it would leave a command of its own at work in what is removed next.
      await Deno.remove(`${at.root}/../go`);
      await swapper.status;
    }
  },
);

for (const byPath of [false, true]) {
  Deno.test(`9p: what is hidden is not there, ${wayOf(byPath)}`, async () => {
    await using at = await served({
      byPath,
      visible: (path) => path !== "large" && !path.startsWith("a/b"),
    });
    const root = await at.client.attach("context");
    assert.deepEqual(await names(at.client, await at.client.walk(root, [])), ["a", "empty"]);
    await assert.rejects(at.client.walk(root, ["large"]), errno(ERRNO.ENOENT));
    await assert.rejects(content(at.client, root, "a/b/file", 7), FileError);
    await assert.rejects(content(at.client, root, "large", 7), FileError);
  });
}

/** A server with one end kept by the test. */
async function raw(): Promise<
  & { call(request: Writer): Promise<{ type: number; errno?: number }>; ended: Promise<unknown> }
  & AsyncDisposable
> {
  const root = await Deno.makeTempDir({ prefix: "svc-9p-" });
  await Deno.writeTextFile(`${root}/file`, "text");
  const folder = new ConfinedFolder(root);
  const node = folderNode(folder);
  const [here, there] = duplexPair();
  const ended = serveNinep(there, new Map([["", node]])).then(() => "ended", (error) => error);
  const replies = new MessageReader(here, 1 << 20);
  return {
    ended,
    async call(request) {
      await here.write(request.finish());
      const reply = (await replies.next())!;
      return { type: reply.type, ...reply.type === RLERROR && { errno: reply.u32() } };
    },
    async [Symbol.asyncDispose]() {
      await here.closeWrite();
      await ended;
      node.close();
      folder[Symbol.dispose]();
      await Deno.remove(root, { recursive: true });
    },
  };
}

Deno.test("9p: nothing can be written, opened for writing or removed", async () => {
  await using server = await raw();
  const { call } = server;
  await call(new Writer(T.VERSION, 0xffff).u32(65536).text(VERSION));
  await call(new Writer(T.ATTACH, 1).u32(1).u32(NO_FID).text("").text("").u32(0));
  await call(new Writer(T.WALK, 1).u32(1).u32(2).u16(1).text("file"));
  for (const flags of [1, 2, 0o1000, 0o101]) {
    assert.equal((await call(new Writer(T.LOPEN, 1).u32(2).u32(flags))).errno, ERRNO.EROFS);
  }
  const name = (type: number, fid = 1) => new Writer(type, 1).u32(fid).text("new");
  const writing = [
    name(T.LCREATE).u32(1).u32(0o644).u32(0),
    name(T.SYMLINK).text("file").u32(0),
    name(T.MKNOD).u32(0o10644).u32(0).u32(0).u32(0),
    new Writer(T.RENAME, 1).u32(2).u32(1).text("new"),
    new Writer(T.SETATTR, 1).u32(2).u32(1).raw(new Uint8Array(52)),
    new Writer(T.SETATTR, 1).u32(1).u32(8).raw(new Uint8Array(52)),
    name(T.XATTRCREATE, 2).u64(1).u32(0),
    new Writer(T.LINK, 1).u32(1).u32(2).text("new"),
    name(T.MKDIR).u32(0o755).u32(0),
    new Writer(T.RENAMEAT, 1).u32(1).text("file").u32(1).text("new"),
    new Writer(T.UNLINKAT, 1).u32(1).text("file").u32(0),
    new Writer(T.WRITE, 1).u32(2).u64(0).u32(1).u8(1),
    new Writer(T.LOPEN, 1).u32(1).u32(1),
  ];
  for (const request of writing) {
    assert.equal((await call(request)).errno, ERRNO.EROFS, `message ${request.type}`);
  }
  assert.equal((await call(new Writer(T.LOPEN, 1).u32(2).u32(0))).errno, undefined);
  assert.equal((await call(writing[11])).errno, ERRNO.EROFS, "open to read");
  assert.equal((await call(new Writer(T.REMOVE, 1).u32(2))).errno, ERRNO.EROFS);
  assert.equal((await call(new Writer(T.WALK, 1).u32(1).u32(1).u16(17))).errno, ERRNO.EINVAL);
  assert.equal((await call(new Writer(T.CLUNK, 1).u32(77))).errno, ERRNO.EBADF);
});

Deno.test("9p: a server takes no rubbish, and lets go of its files", async () => {
  const messages = fc.array(
    fc.tuple(
      fc.constantFrom(...Object.values(T)),
      fc.uint8Array({ maxLength: 40 }),
      fc.option(fc.integer({ min: 0, max: 0x7fffffff }), { freq: 20 }),
    ),
    { maxLength: 20 },
  );
  const root = await Deno.makeTempDir({ prefix: "svc-9p-" });
  await Deno.writeTextFile(`${root}/file`, "text");
  using folder = new ConfinedFolder(root);
  const node = folderNode(folder);
  const exports = new Map([["", node]]);
  await fc.assert(
    fc.asyncProperty(messages, async (list) => {
      const [here, there] = duplexPair();
      const serving = serveNinep(there, exports).catch((error) => assert.ok(refused(error), error));
      const hello = [
        new Writer(T.VERSION, 0xffff).u32(8192).text(VERSION),
        new Writer(T.ATTACH, 1).u32(0).u32(NO_FID).text("").text("").u32(0),
        new Writer(T.WALK, 1).u32(0).u32(1).u16(1).text("file"),
        new Writer(T.LOPEN, 1).u32(1).u32(0),
      ];
      for (const request of hello) await here.write(request.finish());
      for (const [type, body, size] of list) {
        const bytes = new Writer(type, 2).raw(body).finish();
        if (size !== null) new DataView(bytes.buffer).setUint32(0, size, true);
        await here.write(bytes);
      }
      await here.closeWrite();
      await serving;
    }),
    { numRuns: RUNS, seed: SEED },
  );
  node.close();
  await Deno.remove(root, { recursive: true });
});
