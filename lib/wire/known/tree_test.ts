import assert from "node:assert/strict";
import type { NodeStat } from "../files/stat.ts";
import type { NinepClient } from "../ninep/client.ts";
import { NO_TAG, Reader, RTOLD, Writer } from "../ninep/messages.ts";
import { Ahead } from "../ninep/remote_file.ts";
import { putListing, putNews, takeNews } from "./messages.ts";
import { KnownTree } from "./tree.ts";

const NEVER = { s: 0, ns: 0 };
const STAT: NodeStat = {
  ...{ mode: 0o100644, uid: 0, gid: 0, nlink: 1, size: 0, blocks: 0 },
  ...{ atime: NEVER, mtime: NEVER, ctime: NEVER },
};

const entry = (name: string, id: number) => ({ name, id: BigInt(id), stat: STAT });

Deno.test("known: a caller that tells of names without an end is forgotten, not kept", async () => {
  const listing = new Writer(0, 0).u16(1);
  putListing(listing, { id: 1n, stat: STAT, entries: [entry("a", 2)] });
  const reader = new Reader(listing.finish());
  const client = {
    own: true,
    ask: (_type: number, _fill: unknown, take: (reply: Reader) => void) =>
      Promise.resolve(take(reader)),
  } as unknown as NinepClient;
  const tree = new KnownTree(client, 0, new Ahead(), 1n, 100);
  await tree.load(0, 1n);
  assert.ok(tree.entry(1n, "a"));
  const told = (id: number) =>
    tree.told({
      about: "entry",
      tree: 0,
      folder: 1n,
      stat: STAT,
      name: `${id}`,
      entry: entry(`${id}`, id),
    });
  for (let id = 3; id < 102; id++) told(id);
  assert.ok(tree.entry(1n, "101"));
  told(102);
  assert.equal(tree.has(1n), false);
  told(103);
  assert.equal(tree.has(1n), false);
});

Deno.test("known: names that no file can have end the stream", () => {
  for (const name of ["", ".", "..", "a/b", "x".repeat(256)]) {
    const news = new Writer(RTOLD, NO_TAG);
    putNews(news, { about: "entry", tree: 0, folder: 1n, stat: STAT, name, entry: undefined });
    assert.throws(() => [...takeNews(new Reader(news.finish()))], { code: "upstream_failed" });
  }
});
