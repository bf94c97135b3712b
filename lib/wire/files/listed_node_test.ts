/** A listing by 9P: what a kernel mounts. */
import assert from "node:assert/strict";
import { NinepClient } from "../ninep/client.ts";
import { MessageReader, NO_FID, RLERROR, T, VERSION, Writer } from "../ninep/messages.ts";
import { serveNinep } from "../ninep/server.ts";
import { duplexPair, pattern } from "../testing.ts";
import { type Listed, ListedNode } from "./listed_node.ts";
import { ERRNO, FileError } from "./stat.ts";

const LARGE = pattern(300_000);
const file = (size: number): Listed => ({
  kind: "file",
  mode: 0o640,
  size,
  mtime: 1,
  mtimeNs: 500_000_000,
});
const FOLDER: Listed = { kind: "directory", mode: 0o755, size: 0, mtime: 2, mtimeNs: 0 };
const LINK: Listed = {
  kind: "symlink",
  mode: 0o777,
  size: 8,
  mtime: 0,
  mtimeNs: 0,
  link: "sub/deep",
};

/** "broken" cannot be opened. */
class Nodes {
  open_ = 0;
  #id = 0n;
  readonly root = this.folder();

  constructor() {
    const large = this.node(file(LARGE.length), () => this.open());
    const sub = this.folder({ deep: large });
    const broken = this.node(file(1), () => Promise.reject(new Error("the caller is gone")));
    const names = Array.from({ length: 4000 }, (_, n) => [`name-${n}`, large]);
    const all = {
      sub,
      large,
      broken,
      link: this.node(LINK),
      many: this.folder(Object.fromEntries(names)),
    };
    for (const [name, node] of Object.entries(all)) this.root.children.set(name, node);
  }

  node(listed: Listed, open?: () => ReturnType<Nodes["open"]>): ListedNode {
    return new ListedNode(listed, { id: ++this.#id, open });
  }

  folder(children: Record<string, ListedNode> = {}): ListedNode {
    const folder = this.node(FOLDER);
    for (const [name, node] of Object.entries(children)) folder.children.set(name, node);
    return folder;
  }

  async open() {
    this.open_++;
    return await Promise.resolve({
      read: (offset: number, into: Uint8Array) => {
        const part = LARGE.subarray(offset, offset + into.length);
        into.set(part);
        return Promise.resolve(part.length);
      },
      close: () => Promise.resolve(void this.open_--),
    });
  }
}

const errno = (code: number) => (error: unknown) =>
  error instanceof FileError && error.errno === code;

Deno.test("a listing over 9P: folders, contents, links, and what is not there", async () => {
  const [near, far] = duplexPair();
  const nodes = new Nodes();
  const serving = serveNinep(far, new Map([["", nodes.root]]), { maxMessage: 64 * 1024 });
  const client = await NinepClient.connect(near);
  assert.equal(client.readSize, 64 * 1024 - 24);
  const root = await client.attach("");
  const sub = await client.walk(root, ["sub"]);
  const { mode, uid, size, mtime } = await client.getattr(sub);
  assert.deepEqual([mode, uid, size, mtime], [0o040755, 0, 0, { s: 2, ns: 0 }]);
  const deep = await client.walk(sub, ["deep"]);
  assert.equal((await client.getattr(deep)).mtime.ns, 500_000_000);
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
  const names: string[] = [];
  for (let at = 0n, more = true; more;) {
    const entries = await client.readdir(many, at);
    names.push(...entries.map(({ name, kind }) => `${kind} ${name}`));
    more = entries.length > 0;
    at = entries.at(-1)?.next ?? 0n;
  }
  assert.deepEqual(names, Array.from({ length: 4000 }, (_, n) => `file name-${n}`));
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
  const serving = serveNinep(far, new Map([["", new Nodes().root]]), { maxMessage: 8192 });
  const messages = new MessageReader(near, 8192);
  const ask = async (request: Writer) => {
    await near.write(request.finish());
    const reply = (await messages.next())!;
    return reply.type === RLERROR ? -reply.u32() : reply.type;
  };
  await ask(new Writer(T.VERSION, 0xffff).u32(1 << 20).text(VERSION));
  await ask(new Writer(T.ATTACH, 1).u32(1).u32(NO_FID).text("").text("").u32(0));
  assert.equal(await ask(new Writer(T.WRITE, 1).u32(1).u64(0).u32(0)), -ERRNO.EROFS);
  assert.equal(await ask(new Writer(T.MKDIR, 1).u32(1).text("x").u32(0).u32(0)), -ERRNO.EROFS);
  assert.equal(await ask(new Writer(T.LOPEN, 1).u32(1).u32(1)), -ERRNO.EROFS);
  assert.equal(
    await ask(new Writer(T.XATTRWALK, 1).u32(1).u32(5).text("user.x")),
    -ERRNO.EOPNOTSUPP,
  );
  assert.equal(await ask(new Writer(T.GETATTR, 1).u32(9).u64(0)), -ERRNO.EBADF);
  assert.equal(await ask(new Writer(T.FLUSH, 1).u16(77)), T.FLUSH + 1);
  assert.equal(await ask(new Writer(T.STATFS, 1).u32(1)), T.STATFS + 1);
  await near.write(new Writer(T.WALK, 1).finish());
  await assert.rejects(serving, { code: "upstream_failed" });
});
