/** What clients that mean no good, or too much, get from our 9P server. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { SvcError } from "../../base/errors.ts";
import { hostFolder } from "../files/host_node.ts";
import { type Listed, ListedNode } from "../files/listed_node.ts";
import { type FileNode } from "../files/node.ts";
import { ERRNO } from "../files/stat.ts";
import { duplexPair, RUNS, SEED } from "../testing.ts";
import { MessageReader, NO_FID, type Reader, RLERROR, T, VERSION, Writer } from "./messages.ts";
import { serveNinep, type ServeOptions } from "./server.ts";

const ignore = Deno.build.os !== "linux";

/** One end of a connection that is served, past its beginning: fid 0 is the root. */
async function connected(root: FileNode, options?: ServeOptions) {
  const [here, there] = duplexPair();
  const ended = serveNinep(there, new Map([["", root]]), options).then(
    () => "ended",
    (error) => error,
  );
  const replies = new MessageReader(here, 1 << 21);
  const send = (...requests: Writer[]) => {
    for (const request of requests) void here.write(request.finish());
  };
  const next = async (): Promise<Reader | undefined> => await replies.next();
  const ask = async (request: Writer) => {
    send(request);
    const reply = (await next())!;
    return reply.type === RLERROR ? -reply.u32() : reply.type;
  };
  await ask(new Writer(T.VERSION, 0xffff).u32(1 << 20).text(VERSION));
  await ask(new Writer(T.ATTACH, 1).u32(0).u32(NO_FID).text("").text("").u32(0));
  return { here, ended, send, next, ask, end: () => here.closeWrite() };
}

const descriptors = () => Array.from(Deno.readDirSync("/proc/self/fd")).length;
const violated = (error: unknown) =>
  error === "ended" || error instanceof SvcError && error.code === "upstream_failed";

const name = fc.constantFrom(
  "file",
  "dir",
  "out",
  "new",
  "..",
  ".",
  "",
  "a/b",
  "/etc/passwd",
  "../outside/secret",
  "nul\0",
  "x".repeat(300),
);
const fid = fc.nat(6);
const number = fc.oneof(fc.nat(10), fc.constantFrom(0o777, 0o6777, 0o102, 0o1001, 0x7fffffff));
const long = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });

/** Fields of each message: any values, in the right places. */
const SHAPES: Partial<Record<keyof typeof T, string>> = {
  ATTACH: "ffssn",
  WALK: "ffw",
  LOPEN: "fn",
  LCREATE: "fsnnn",
  SYMLINK: "fssn",
  MKNOD: "fsnnnn",
  RENAME: "ffs",
  READLINK: "f",
  GETATTR: "fl",
  SETATTR: "fnnnnlllll",
  XATTRWALK: "ffs",
  XATTRCREATE: "fsln",
  READDIR: "fln",
  FSYNC: "fn",
  LOCK: "fbnllns",
  GETLOCK: "fbllns",
  LINK: "ffs",
  MKDIR: "fsnn",
  RENAMEAT: "fsfs",
  UNLINKAT: "fsn",
  FLUSH: "h",
  READ: "fln",
  WRITE: "fld",
  CLUNK: "f",
  REMOVE: "f",
  STATFS: "f",
};

const FIELDS: Record<string, fc.Arbitrary<(request: Writer) => Writer>> = {
  f: fid.map((value) => (request) => request.u32(value)),
  n: number.map((value) => (request) => request.u32(value)),
  l: fc.oneof(long, fc.bigInt({ min: 0n, max: 9000n })).map((value) => (request) =>
    request.u64(value)
  ),
  s: name.map((value) => (request) => request.text(value)),
  b: fc.nat(4).map((value) => (request) => request.u8(value)),
  h: fc.nat(9).map((value) => (request) => request.u16(value)),
  w: fc.array(name, { maxLength: 3 }).map((names) => (request) => {
    request.u16(names.length);
    for (const one of names) request.text(one);
    return request;
  }),
  d: fc.uint8Array({ maxLength: 30 }).map((bytes) => (request) =>
    request.u32(bytes.length).raw(bytes)
  ),
};

const request = fc.constantFrom(...Object.entries(SHAPES)).chain(([type, shape]) =>
  fc.tuple(...shape.split("").map((field) => FIELDS[field])).map((fields) => (tag: number) =>
    fields.reduce(
      (writer, field) => field(writer),
      new Writer(T[type as keyof typeof T], tag),
    )
  )
);

Deno.test({
  name: "9p server: no order of any requests touches what is outside, or keeps a file open",
  ignore,
  fn: async () => {
    const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-9p-" }));
    await Deno.mkdir(`${base}/outside`);
    await Deno.writeTextFile(`${base}/outside/secret`, "secret");
    const outside = () => {
      const { mode, mtime, ctime, size, nlink } = Deno.lstatSync(`${base}/outside/secret`);
      const names = Array.from(Deno.readDirSync(`${base}/outside`), ({ name }) => name);
      return JSON.stringify([mode, mtime, ctime, size, nlink, names]);
    };
    const before = outside();
    const held = descriptors();
    await fc.assert(
      fc.asyncProperty(fc.array(request, { maxLength: 40 }), async (requests) => {
        await Deno.mkdir(`${base}/root/dir`, { recursive: true });
        await Deno.writeTextFile(`${base}/root/file`, "text");
        await Deno.symlink("../outside", `${base}/root/out`);
        const root = hostFolder(`${base}/root`, { writable: true });
        const { send, next, ended, end } = await connected(root);
        send(...requests.map((make, tag) => make(tag)));
        await end();
        const answered = new Set<number>();
        for (let reply = await next(); reply; reply = await next()) {
          assert.ok(!answered.has(reply.tag), "one answer for each");
          answered.add(reply.tag);
        }
        assert.equal(await ended, "ended");
        assert.equal(answered.size, requests.length);
        root.close();
        // A guest may have taken its own rights away.
        await Deno.remove(`${base}/root`, { recursive: true });
      }),
      { numRuns: RUNS * 3, seed: SEED },
    );
    assert.equal(outside(), before);
    assert.ok(descriptors() <= held + 2, "files are closed");
    await Deno.remove(base, { recursive: true });
  },
});

Deno.test({
  name: "9p server: frames that are damaged end the connection, and close its files",
  ignore,
  fn: async () => {
    const path = await Deno.makeTempDir({ prefix: "svc-9p-" });
    await Deno.writeTextFile(`${path}/file`, "text");
    const root = hostFolder(path, { writable: true });
    const held = descriptors();
    const damage = fc.record({
      requests: fc.array(request, { minLength: 1, maxLength: 10 }),
      at: fc.nat(400),
      byte: fc.nat(255),
      cut: fc.option(fc.nat(400)),
    });
    await fc.assert(
      fc.asyncProperty(damage, async ({ requests, at, byte, cut }) => {
        const { here, ended, end } = await connected(root);
        const all = requests.flatMap((make, tag) => Array.from(make(tag).finish()));
        if (at < all.length) all[at] = byte;
        await here.write(new Uint8Array(cut === null ? all : all.slice(0, cut)));
        await end();
        assert.ok(violated(await ended));
      }),
      { numRuns: RUNS * 2, seed: SEED },
    );
    assert.ok(descriptors() <= held + 2, "files are closed");
    root.close();
    await Deno.remove(path, { recursive: true });
  },
});

const FOLDER: Listed = { kind: "directory", mode: 0o755, size: 0, mtime: 0, mtimeNs: 0 };

/** A folder with a file whose reads last until they are let go. */
function stalling() {
  const waiting: (() => void)[] = [];
  const counts = { under: 0, most: 0 };
  const root = new ListedNode(FOLDER, { id: 1n });
  const file = new ListedNode({ ...FOLDER, kind: "file" }, {
    id: 2n,
    open: () => ({
      read: async () => {
        counts.most = Math.max(counts.most, ++counts.under);
        await new Promise<void>((resolve) => waiting.push(resolve));
        counts.under--;
        return 1;
      },
      close() {},
    }),
  });
  root.children.set("file", file);
  return { root, waiting, counts };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));
const opening = () => [
  new Writer(T.WALK, 1).u32(0).u32(1).u16(1).text("file"),
  new Writer(T.LOPEN, 2).u32(1).u32(0),
];

Deno.test("9p server: requests under way, fids, names and messages have their limits", async () => {
  const { root, waiting, counts } = stalling();
  const { ask, send, next, ended, end } = await connected(root, { maxFids: 100, maxMessage: 8192 });
  for (const message of opening()) await ask(message);
  send(...Array.from({ length: 200 }, (_, n) => new Writer(T.READ, 10 + n).u32(1).u64(0).u32(1)));
  while (counts.most < 32) await turn();
  await turn();
  assert.equal(counts.most, 32);
  const answered: number[] = [];
  while (answered.length < 200) {
    waiting.splice(0).forEach((go) => go());
    answered.push((await next())!.tag);
  }
  assert.equal(new Set(answered).size, 200);
  assert.equal(counts.most, 32);
  for (let fid = 2; fid < 100; fid++) {
    assert.equal(await ask(new Writer(T.WALK, 1).u32(0).u32(fid).u16(0)), T.WALK + 1);
  }
  assert.equal(await ask(new Writer(T.WALK, 1).u32(0).u32(100).u16(0)), -ERRNO.EMFILE);
  assert.equal(await ask(new Writer(T.CLUNK, 1).u32(50)), T.CLUNK + 1);
  assert.equal(await ask(new Writer(T.WALK, 1).u32(0).u32(100).u16(0)), T.WALK + 1);
  assert.equal(await ask(new Writer(T.WALK, 1).u32(0).u32(NO_FID).u16(0)), -ERRNO.EBADF);
  const many = new Writer(T.WALK, 1).u32(0).u32(50).u16(17);
  assert.equal(await ask(many), -ERRNO.EINVAL);
  send(new Writer(T.WRITE, 1).u32(1).u64(0).u32(9000).raw(new Uint8Array(9000)));
  assert.ok(await ended instanceof SvcError, "more than one message may have");
  await end();
});

Deno.test("9p server: a tag is used once at a time, a flush comes after what it ends", async () => {
  const { root, waiting } = stalling();
  const { ask, send, next, ended } = await connected(root);
  for (const message of opening()) await ask(message);
  send(
    new Writer(T.READ, 7).u32(1).u64(0).u32(1),
    new Writer(T.FLUSH, 8).u16(7),
    new Writer(T.CLUNK, 9).u32(1),
    new Writer(T.GETATTR, 10).u32(0).u64(0),
  );
  assert.equal((await next())!.tag, 10, "what waits for nothing is answered first");
  waiting.splice(0).forEach((go) => go());
  const tags = [await next(), await next(), await next()].map((reply) => reply!.tag);
  assert.deepEqual(tags.toSorted(), [7, 8, 9]);
  assert.ok(tags.indexOf(7) < tags.indexOf(8));
  assert.ok(tags.indexOf(7) < tags.indexOf(9), "a file is closed after what reads it");
  for (const message of opening()) await ask(message);
  send(
    new Writer(T.READ, 7).u32(1).u64(0).u32(1),
    new Writer(T.READ, 7).u32(1).u64(0).u32(1),
  );
  while (waiting.length === 0) await turn();
  waiting.splice(0).forEach((go) => go());
  assert.ok(await ended instanceof SvcError);
});

Deno.test("9p server: who takes no answers is not read from without end", async () => {
  const root = new ListedNode(FOLDER, { id: 1n });
  const [here, there] = duplexPair();
  let taken = 0;
  const go = Promise.withResolvers<void>();
  const slow = {
    ...there,
    read: async () => {
      const bytes = await there.read();
      taken += bytes?.length ?? 0;
      return bytes;
    },
    write: () => go.promise,
  };
  const ended = serveNinep(slow, new Map([["", root]]));
  await here.write(new Writer(T.VERSION, 0xffff).u32(1 << 20).text(VERSION).finish());
  await here.write(
    new Writer(T.ATTACH, 1).u32(0).u32(NO_FID).text("").text("").u32(0).finish(),
  );
  for (let n = 0; n < 20_000; n++) {
    void here.write(new Writer(T.GETATTR, n % 1000).u32(0).u64(0).finish());
  }
  await turn();
  while (taken === 0) await turn();
  await turn();
  assert.ok(taken < 200_000, `${taken} bytes were taken`);
  go.resolve();
  await here.closeWrite();
  await ended;
});

Deno.test({
  name: "9p server: what is sent at once for one file is done in its order",
  ignore,
  fn: async () => {
    const path = await Deno.makeTempDir({ prefix: "svc-9p-" });
    const root = hostFolder(path, { writable: true });
    const { send, next, ended, end } = await connected(root);
    const requests: Writer[] = [];
    for (let n = 0; n < 200; n++) {
      const fid = 10 + n;
      const text = new TextEncoder().encode(`text ${n}`);
      const tag = () => requests.length;
      requests.push(new Writer(T.WALK, tag()).u32(0).u32(fid).u16(0));
      requests.push(new Writer(T.LCREATE, tag()).u32(fid).text(`f${n}`).u32(2).u32(0o644).u32(0));
      requests.push(new Writer(T.WRITE, tag()).u32(fid).u64(0).u32(text.length).raw(text));
      requests.push(new Writer(T.CLUNK, tag()).u32(fid));
    }
    send(...requests);
    for (const _ of requests) assert.notEqual((await next())!.type, RLERROR);
    await end();
    assert.equal(await ended, "ended");
    for (let n = 0; n < 200; n++) assert.equal(Deno.readTextFileSync(`${path}/f${n}`), `text ${n}`);
    root.close();
    await Deno.remove(path, { recursive: true });
  },
});
