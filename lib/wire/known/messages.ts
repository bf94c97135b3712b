/**
 * Listings and news of folders, in the version of 9P that svc's mounts speak. `Tlist fid[4] tree[4]`, where `tree` is
 * the client's number for the export; `Rlist count[2] folder[count]`: the folder and some below it, all watched from
 * then on. `Rtold`: what is true now of entries that have changed.
 */
import { decodeRaw } from "../../base/raw_string.ts";
import { type KnownEntry, MAX_NAME } from "../files/node.ts";
import type { NodeStat } from "../files/stat.ts";
import { type Reader, violation, type Writer } from "../ninep/messages.ts";

export interface FolderListing {
  id: bigint;
  stat: NodeStat;
  entries: KnownEntry[];
}

/** What an item of Rtold is about. */
const ABOUT = { ALL: 0, GONE: 1, FOLDER: 2, ENTRY: 3, NO_ENTRY: 4 } as const;

export type News =
  /** Nothing counts that was told before. */
  | { about: "all" }
  /** The folder is not watched any more. */
  | { about: "gone"; tree: number; folder: bigint }
  | { about: "folder"; tree: number; folder: bigint; stat: NodeStat }
  | {
    about: "entry";
    tree: number;
    folder: bigint;
    stat: NodeStat;
    name: string;
    /** Undefined: there is none. */
    entry: KnownEntry | undefined;
  };

/** Bytes of attributes, and of an entry beside its name. */
const STAT = 68;
const ENTRY = STAT + 10;

function putStat(to: Writer, stat: NodeStat): Writer {
  to.u32(stat.mode).u32(stat.uid).u32(stat.gid).u32(stat.nlink).u64(stat.size).u64(stat.blocks);
  for (const { s, ns } of [stat.atime, stat.mtime, stat.ctime]) to.u64(s).u32(ns);
  return to;
}

function takeStat(from: Reader): NodeStat {
  const [mode, uid, gid, nlink] = [from.u32(), from.u32(), from.u32(), from.u32()];
  const [size, blocks] = [Number(from.u64()), Number(from.u64())];
  const time = () => ({ s: Number(BigInt.asIntN(64, from.u64())), ns: from.u32() });
  const [atime, mtime, ctime] = [time(), time(), time()];
  return { mode, uid, gid, nlink, size, blocks, atime, mtime, ctime };
}

function takeName(from: Reader): string {
  const size = from.u16();
  const name = size > MAX_NAME ? "" : decodeRaw(from.raw(size));
  if (name === "" || name === "." || name === ".." || /[/\0]/.test(name)) {
    throw violation("a listing has a name that is none");
  }
  return name;
}

export function putListing(to: Writer, { id, stat, entries }: FolderListing): void {
  putStat(to.u64(id), stat).u32(entries.length);
  for (const { name, id, stat } of entries) putStat(to.text(name).u64(id), stat);
}

export function takeListings(from: Reader): FolderListing[] {
  return Array.from({ length: from.u16() }, () => {
    const [id, stat] = [from.u64(), takeStat(from)];
    const count = from.u32();
    if (count * ENTRY > from.left) throw violation("a listing is shorter than it says");
    const entries = Array.from({ length: count }, () => {
      const [name, id] = [takeName(from), from.u64()];
      return { name, id, stat: takeStat(from) };
    });
    return { id, stat, entries };
  });
}

export function putNews(to: Writer, news: News): void {
  switch (news.about) {
    case "all":
      return void to.u8(ABOUT.ALL);
    case "gone":
      return void to.u8(ABOUT.GONE).u32(news.tree).u64(news.folder);
    case "folder":
      return void putStat(to.u8(ABOUT.FOLDER).u32(news.tree).u64(news.folder), news.stat);
  }
  const { tree, folder, stat, name, entry } = news;
  putStat(to.u8(entry ? ABOUT.ENTRY : ABOUT.NO_ENTRY).u32(tree).u64(folder), stat).text(name);
  if (entry) putStat(to.u64(entry.id), entry.stat);
}

export function* takeNews(from: Reader): Generator<News> {
  while (from.left > 0) {
    const what = from.u8();
    if (what === ABOUT.ALL) {
      yield { about: "all" };
      continue;
    }
    const [tree, folder] = [from.u32(), from.u64()];
    if (what === ABOUT.GONE) yield { about: "gone", tree, folder };
    else if (what === ABOUT.FOLDER) yield { about: "folder", tree, folder, stat: takeStat(from) };
    else if (what === ABOUT.ENTRY || what === ABOUT.NO_ENTRY) {
      const [stat, name] = [takeStat(from), takeName(from)];
      const entry = what === ABOUT.ENTRY
        ? { name, id: from.u64(), stat: takeStat(from) }
        : undefined;
      yield { about: "entry", tree, folder, stat, name, entry };
    } else throw violation("news of an unknown kind");
  }
}
