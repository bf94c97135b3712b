import assert from "node:assert/strict";
import { duplexPair, pattern } from "../testing.ts";
import { NinepClient, ServerError } from "./client.ts";
import { type ListedNode, type ListedNodes, serveListed } from "./listed.ts";
import { ERRNO, MessageReader, NO_FID, RLERROR, T, VERSION, Writer } from "./messages.ts";

const LARGE = pattern(300_000);
const file = (size: number): ListedNode => ({
  kind: "file",
  mode: 0o640,
  size,
  mtime: 1,
  mtimeNs: 500_000_000,
});
const folder = (children: Record<string, number>): ListedNode => ({
  kind: "directory",
  mode: 0o755,
  size: 0,
  mtime: 2,
  mtimeNs: 0,
  children: new Map(Object.entries(children)),
});

/** Files 3 and up; 4 cannot be opened. */
class Nodes implements ListedNodes {
  open_ = 0;
  nodes = [
    folder({ sub: 2, large: 3, broken: 4, link: 5, many: 6 }),
    folder({ deep: 3 }),
    file(LARGE.length),
    file(1),
    { kind: "symlink", mode: 0o777, size: 8, mtime: 0, mtimeNs: 0, link: "sub/deep" } as ListedNode,
    folder(Object.fromEntries(Array.from({ length: 4000 }, (_, n) => [`name-${n}`, 3]))),
  ];

  node(number: number): ListedNode | undefined {
    return this.nodes[number - 1];
  }

  async open(number: number) {
    if (number === 4) throw new Error("the caller is gone");
    this.open_++;
    return await Promise.resolve({
      read: (offset: number, count: number) =>
        Promise.resolve(LARGE.subarray(offset, offset + count)),
      close: () => Promise.resolve(void this.open_--),
    });
  }
}

const errno = (code: number) => (error: unknown) =>
  error instanceof ServerError && error.errno === code;

Deno.test("a listing over 9P: folders, contents, links, and what is not there", async () => {
  const [near, far] = duplexPair();
  const nodes = new Nodes();
  const serving = serveListed(far, nodes, { maxMessage: 64 * 1024 });
  const client = await NinepClient.connect(near);
  assert.equal(client.readSize, 64 * 1024 - 24);
  const root = await client.attach("");
  const sub = await client.walk(root, ["sub", "..", "sub"]);
  const { mode, uid, size, mtime, mtimeNs } = await client.getattr(sub);
  assert.deepEqual([mode, uid, size, mtime, mtimeNs], [0o040755, 0, 0n, 2n, 0]);
  const deep = await client.walk(sub, ["deep"]);
  assert.deepEqual((await client.getattr(deep)).mtimeNs, 500_000_000);
  await client.open(deep);
  assert.equal(nodes.open_, 1);
  const offsets = Array.from({ length: 7 }, (_, index) => index * 50_000);
  const parts = await Promise.all(offsets.map((at) => client.read(deep, at, 50_000)));
  assert.deepEqual(new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer()), LARGE);
  await client.clunk(deep);
  assert.equal(nodes.open_, 0);
  assert.equal(await client.readlink(await client.walk(root, ["link"])), "sub/deep");
  const many = await client.walk(root, ["many"]);
  await client.open(many);
  const names = [];
  for await (const { name, type } of client.readdir(many, 5000)) names.push(`${type} ${name}`);
  assert.deepEqual(names, Array.from({ length: 4000 }, (_, n) => `8 name-${n}`));
  await assert.rejects(client.walk(root, ["none"]), errno(ERRNO.ENOENT));
  await assert.rejects(client.walk(root, ["large", "below"]), errno(ERRNO.ENOENT));
  await assert.rejects(client.open(await client.walk(root, ["broken"])), errno(ERRNO.EIO));
  await assert.rejects(client.open(await client.walk(root, ["link"])), errno(ERRNO.ELOOP));
  await assert.rejects(client.readlink(sub), errno(ERRNO.EINVAL));
  await client.open(await client.walk(root, ["large"]));
  assert.equal(nodes.open_, 1);
  await near.closeWrite();
  await serving;
  assert.equal(nodes.open_, 0, "what was open is closed with the connection");
});

Deno.test("a listing over 9P: nothing is written, what is not known is refused, rubbish ends it", async () => {
  const [near, far] = duplexPair();
  const serving = serveListed(far, new Nodes(), { maxMessage: 8192 });
  const messages = new MessageReader(near, 8192);
  const ask = async (request: Writer) => {
    await near.write(request.finish());
    const reply = (await messages.next())!;
    return reply.type === RLERROR ? -reply.u32() : reply.type;
  };
  assert.equal(await ask(new Writer(T.CLUNK, 1).u32(1)), -ERRNO.EIO, "no version yet");
  await ask(new Writer(T.VERSION, 0xffff).u32(1 << 20).text(VERSION));
  await ask(new Writer(T.ATTACH, 1).u32(1).u32(NO_FID).text("").text("").u32(0));
  assert.equal(await ask(new Writer(T.WRITE, 1).u32(1)), -ERRNO.EROFS);
  assert.equal(await ask(new Writer(T.MKDIR, 1).u32(1)), -ERRNO.EROFS);
  assert.equal(await ask(new Writer(T.LOPEN, 1).u32(1).u32(1)), -ERRNO.EROFS);
  assert.equal(await ask(new Writer(T.XATTRWALK, 1).u32(1)), -ERRNO.EOPNOTSUPP);
  assert.equal(await ask(new Writer(T.GETATTR, 1).u32(9).u64(0)), -ERRNO.EBADF);
  assert.equal(await ask(new Writer(T.FLUSH, 1).u16(77)), T.FLUSH + 1);
  assert.equal(await ask(new Writer(T.STATFS, 1).u32(1)), T.STATFS + 1);
  assert.equal(await ask(new Writer(T.WALK, 1)), -ERRNO.EIO, "shorter than its fields");
  await near.write(new Uint8Array(16).fill(255));
  await assert.rejects(serving, { code: "upstream_failed" });
});
