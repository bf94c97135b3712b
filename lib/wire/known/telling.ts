/**
 * The caller's half: lists folders in bulk, watches them, and tells what changes. News say what is true when they are
 * sent, and go among the answers in the order in which both became true; so the other side may believe the last one.
 */
import { hearFolders } from "../../sys/inotify.ts";
import { type FileNode, TYPE_BITS, TYPE_MASK, type WatchedFolder } from "../files/node.ts";
import { ERRNO, FileError, type Later } from "../files/stat.ts";
import { NO_TAG, RTOLD, Writer } from "../ninep/messages.ts";
import { putListing, putNews } from "./messages.ts";

/** Entries of one folder at most, and of one answer, after which no further folder is added. */
const MOST = 8000;
const TOGETHER = 2000;
/** Bytes of an answer: below the size of a message. */
const BYTES = 900_000;
/** Folders that are watched for one client. */
const FOLDERS = 20_000;
/** Changed names that wait to be told: when there are more, all is forgotten. */
const WAITING = 10_000;
/** Names in one message. */
const PART = 500;
/** Milliseconds for which news are gathered, and after which they are tried again. */
const GATHER_MS = 2;
const AGAIN_MS = 5;

interface Watched {
  tree: number;
  folder: WatchedFolder;
  /** Names that have changed, "" for the folder itself. */
  changed: Set<string>;
}

export class Telling {
  #watched = new Map<string, Watched>();
  /** Folders with news. */
  #dirty = new Set<Watched>();
  #waiting = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ends = new Set<Promise<void>>();
  #forgetAll = false;
  /** Works during which nothing is told. */
  #silent = 0;

  /** `send` returns false where it cannot take more now. */
  constructor(readonly send: (news: Uint8Array) => boolean) {}

  /** Throws where the folder cannot be watched, or has too many entries. */
  list(node: FileNode, tree: number, reply: Writer): void {
    reply.u16(0);
    const at = reply.size;
    const queue: FileNode[] = [];
    let [folders, entries] = [0, 0];
    const add = (node: FileNode, most: number) => {
      const before = reply.size;
      try {
        const listing = this.#listing(node, tree, most);
        putListing(reply, listing);
        if (reply.size - at > BYTES) throw new FileError(ERRNO.EFBIG, "the folder is too large");
        folders++;
        entries += listing.entries.length;
        queue.push(...below(node, listing.entries, TOGETHER - entries));
      } catch (error) {
        reply.shrink(reply.size - before);
        this.#drop(tree, node.id);
        throw error;
      }
    };
    try {
      add(node, MOST);
      for (const one of queue) {
        if (entries >= TOGETHER) break;
        try {
          add(one, TOGETHER - entries);
        } catch {
          // It is asked for when it is needed.
        }
      }
    } finally {
      for (const one of queue) one.close();
    }
    reply.patch16(at - 2, folders);
  }

  /** Watched first and listed then: no change falls between the two. */
  #listing(node: FileNode, tree: number, most: number) {
    const key = `${tree} ${node.id}`;
    let watched = this.#watched.get(key);
    if (!watched) {
      if (!node.watch) throw new FileError(ERRNO.EOPNOTSUPP, "it is not watched");
      if (this.#watched.size >= FOLDERS) throw new FileError(ERRNO.EMFILE, "too many folders");
      const changed = new Set<string>();
      const folder = node.watch((name) => this.#changed(key, name));
      this.#watched.set(key, watched = { tree, folder, changed });
    }
    const entries = watched.folder.entries(most);
    if (!entries) throw new FileError(ERRNO.EFBIG, "the folder is too large");
    return { id: node.id, stat: watched.folder.stat(), entries };
  }

  #changed(key: string, name: string | undefined): void {
    if (name === undefined) return this.forget();
    const watched = this.#watched.get(key);
    if (!watched || watched.changed.has(name)) return;
    watched.changed.add(name);
    this.#dirty.add(watched);
    if (++this.#waiting > WAITING) return this.forget();
    this.#timer ??= setTimeout(() => this.#tell(), GATHER_MS);
  }

  /** What was changed before an answer is told together with it: so the mount need not ask about its own changes. */
  now(): void {
    hearFolders();
    if (this.#timer === undefined || this.#silent > 0) return;
    clearTimeout(this.#timer);
    this.#tell();
  }

  /** What is made gets its number during the work: it is told of with that one alone. */
  async later<R>(work: () => Later<R>): Promise<R> {
    this.#silent++;
    try {
      return await work();
    } finally {
      this.#silent--;
    }
  }

  /** The other side forgets all that it was told: news were lost, or are too many. */
  forget(): void {
    for (const { tree, folder } of this.#watched.values()) this.#drop(tree, folder.id);
    this.#forgetAll = true;
    this.#timer ??= setTimeout(() => this.#tell(), GATHER_MS);
  }

  #drop(tree: number, id: bigint): void {
    const key = `${tree} ${id}`;
    const watched = this.#watched.get(key);
    if (!watched) return;
    this.#watched.delete(key);
    this.#waiting -= watched.changed.size;
    this.#dirty.delete(watched);
    const ended = watched.folder.end();
    this.#ends.add(ended);
    void ended.then(() => this.#ends.delete(ended));
  }

  #tell(): void {
    this.#timer = undefined;
    if (this.#silent > 0) {
      this.#timer = setTimeout(() => this.#tell(), AGAIN_MS);
      return;
    }
    const news = new Writer(RTOLD, NO_TAG);
    const forgetting = this.#forgetAll;
    if (forgetting) putNews(news, { about: "all" });
    const told: [Watched, string][] = [];
    for (const watched of this.#dirty) {
      for (const name of watched.changed) {
        if (told.length < PART) told.push([watched, name]);
      }
    }
    for (const [watched, name] of told) this.#put(news, watched, name);
    const sent = this.send(news.finish());
    if (sent) {
      this.#forgetAll &&= !forgetting;
      for (const [watched, name] of told) this.#done(watched, name);
    }
    if (this.#dirty.size > 0 || this.#forgetAll) {
      this.#timer = setTimeout(() => this.#tell(), sent ? 0 : AGAIN_MS);
    }
  }

  #put(news: Writer, { tree, folder }: Watched, name: string): void {
    const stat = folder.stat();
    const at = { tree, folder: folder.id };
    if (stat.nlink === 0) putNews(news, { about: "gone", ...at });
    else if (name === "") putNews(news, { about: "folder", ...at, stat });
    else putNews(news, { about: "entry", ...at, stat, name, entry: folder.entry(name) });
  }

  #done(watched: Watched, name: string): void {
    const { tree, folder, changed } = watched;
    if (changed.delete(name)) this.#waiting--;
    if (changed.size === 0) this.#dirty.delete(watched);
    const here = this.#watched.get(`${tree} ${folder.id}`) === watched;
    if (here && folder.stat().nlink === 0) this.#drop(tree, folder.id);
  }

  /** Watches nothing any more. */
  async end(): Promise<void> {
    for (const { tree, folder } of this.#watched.values()) this.#drop(tree, folder.id);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#forgetAll = false;
    await Promise.all(this.#ends);
  }
}

/** The folders among the entries, as far as they are at hand. */
function below(
  folder: FileNode,
  entries: readonly { name: string; stat: { mode: number } }[],
  most: number,
): FileNode[] {
  const found: FileNode[] = [];
  for (const { name, stat } of entries) {
    if ((stat.mode & TYPE_MASK) !== TYPE_BITS.directory || found.length >= most) continue;
    try {
      const node = folder.walk(name);
      if (!(node instanceof Promise)) found.push(node);
      else node.then((late) => late.close(), () => {});
    } catch {
      // It is gone by now.
    }
  }
  return found;
}
