/**
 * The server's half: what is known of an export's folders without asking the caller, because it was listed and its
 * changes are told. What is known is true up to the time that news take; what the mount changes itself is known at
 * once, since answers and news come in their order.
 */
import { kindOf } from "../files/node.ts";
import type { NodeKind, NodeStat } from "../files/stat.ts";
import type { NinepClient } from "../ninep/client.ts";
import type { Ahead } from "../ninep/remote_file.ts";
import { T, type Writer } from "../ninep/messages.ts";
import type { Behind } from "./behind.ts";
import { type FolderListing, type News, takeListings } from "./messages.ts";

/** Milliseconds for which a folder that cannot be known is not asked for again. */
const REFUSED_MS = 30_000;
/** Entries of all folders, after which what was known is forgotten: about 250 MB. */
const MOST = 1_000_000;

interface Entry {
  folder: bigint;
  name: string;
  id: bigint;
  kind: NodeKind;
  /** Undefined where the mount has changed them, until that is told. */
  stat: NodeStat | undefined;
}

interface Folder {
  stat: NodeStat | undefined;
  entries: Map<string, Entry>;
  /** Not to be believed until it is listed again; kept, since the kernel was told of it. */
  doubted?: boolean;
}

/** A change that was made at the caller. */
export interface Change {
  folder: bigint;
  name: string;
  before?: { id: bigint; kind: NodeKind };
  after?: { id: bigint; kind: NodeKind };
  /** `content`, `attributes`: of the same file. `unknown`: what was known of the entry does not count any more. */
  what: "entry" | "content" | "attributes" | "unknown";
}

export interface Heard {
  /** What was made at the caller, and what changed there. Resolves when the kernel knows. */
  changed(change: Change): Promise<void>;
  /** A file's or folder's attributes, or its content, may have changed. Resolves when the kernel knows. */
  file(id: bigint): Promise<void>;
}

const same = (a: NodeStat, b: NodeStat, fields: readonly ("mtime" | "ctime")[]) =>
  a.size === b.size && fields.every((at) => a[at].s === b[at].s && a[at].ns === b[at].ns);

export class KnownTree {
  #folders = new Map<bigint, Folder>();
  #entries = 0;
  /** The entries of known folders by their numbers: of a file with several names one that was told last. */
  #known = new Map<bigint, Entry>();
  #loading = new Map<bigint, Promise<void>>();
  #refused = new Map<bigint, number>();
  /** Names that the mount is changing: what is told of them meanwhile may be that change. */
  #own = new Map<string, number>();
  heard: Heard | undefined;
  /** Where the mount need not wait for what it makes. */
  behind: Behind | undefined;
  /** What the kernel is being told. */
  #telling = new Set<Promise<void>>();

  /** `number`: of this export, among those of the client. */
  constructor(
    readonly client: NinepClient,
    readonly number: number,
    readonly ahead: Ahead,
    readonly root: bigint,
    readonly most = MOST,
  ) {}

  /** The folder's path below the root, as far as is known. */
  path(folder: bigint): string | undefined {
    const names: string[] = [];
    for (let at = folder; at !== this.root;) {
      const entry = this.#known.get(at);
      // Deeper than any path, or in a circle, by listings that are not of one moment.
      if (!entry || names.length > 2000) return undefined;
      names.unshift(entry.name);
      at = entry.folder;
    }
    return names.join("/");
  }

  /** Whether the folder's entries are known. */
  has(folder: bigint): boolean {
    return this.#sure(folder) !== undefined;
  }

  /** Whether a known entry has the number. */
  lives(id: bigint): boolean {
    return this.#known.has(id);
  }

  /** Undefined where it has none, or is not known. */
  entry(folder: bigint, name: string): Readonly<Entry> | undefined {
    return this.#sure(folder)?.entries.get(name);
  }

  #sure(id: bigint): Folder | undefined {
    const folder = this.#folders.get(id);
    return folder?.doubted ? undefined : folder;
  }

  entries(folder: bigint): Iterable<[string, Readonly<Entry>]> | undefined {
    return this.#sure(folder)?.entries;
  }

  folderStat(folder: bigint): NodeStat | undefined {
    if (this.behind?.makesIn(folder)) return undefined;
    return this.#sure(folder)?.stat;
  }

  /** Attributes of a file that is an entry; undefined where others may change it unseen, by another name. */
  stat(folder: bigint, name: string, id: bigint): NodeStat | undefined {
    const entry = this.entry(folder, name);
    const { stat } = entry ?? {};
    if (entry?.id !== id || !stat || stat.nlink > 1 || this.ahead.writes.settled(id)) return;
    return stat;
  }

  /** Asks for the folder's listing, unless that was refused a short time ago. Never throws. */
  load(fid: number, id: bigint): Promise<void> {
    const under = this.#loading.get(id);
    if (under) return under;
    const until = this.#refused.get(id);
    if (!this.client.own || until && performance.now() < until) return Promise.resolve();
    this.#refused.delete(id);
    const loading = this.list(fid).catch(() => {
      if (this.#refused.size > 10_000) this.#refused.clear();
      this.#refused.set(id, performance.now() + REFUSED_MS);
    }).finally(() => this.#loading.delete(id));
    this.#loading.set(id, loading);
    return loading;
  }

  /** Asks for the listing of the folder of a fid. */
  async list(fid: number): Promise<void> {
    const fill = (request: Writer) => request.u32(fid).u32(this.number);
    await this.client.ask(T.LIST, fill, (reply) => {
      for (const listing of takeListings(reply)) this.#listed(listing);
    });
  }

  #listed({ id, stat, entries }: FolderListing): void {
    if (this.#entries + entries.length > this.most) this.#forgetAll();
    const before = this.#folders.get(id);
    const folder: Folder = before ?? { stat, entries: new Map() };
    folder.doubted = false;
    this.#folders.set(id, folder);
    const news = { about: "entry", tree: this.number, folder: id, stat } as const;
    if (before) {
      this.told({ about: "folder", tree: this.number, folder: id, stat });
      const names = new Set(entries.map(({ name }) => name));
      for (const name of before.entries.keys()) {
        if (!names.has(name)) this.told({ ...news, name, entry: undefined });
      }
    }
    for (const entry of entries) {
      const { name, id: number, stat } = entry;
      if (before) this.told({ ...news, name, entry });
      else this.#put({ folder: id, name, id: number, kind: kindOf(stat.mode), stat });
    }
  }

  #put(entry: Entry): void {
    const folder = this.#folders.get(entry.folder)!;
    this.#take(folder, entry.name);
    folder.entries.set(entry.name, entry);
    this.#entries++;
    const other = this.#known.get(entry.id);
    // It has two names: who changes it by one is not told by the other.
    if (other && entry.kind !== "directory") {
      other.stat = undefined;
      void this.heard?.file(entry.id);
    }
    this.#known.set(entry.id, entry);
  }

  #take(folder: Folder, name: string): Entry | undefined {
    const entry = folder.entries.get(name);
    if (!entry) return;
    folder.entries.delete(name);
    this.#entries--;
    if (this.#known.get(entry.id) === entry) this.#known.delete(entry.id);
    return entry;
  }

  #forget(id: bigint): void {
    const folder = this.#folders.get(id);
    if (!folder) return;
    for (const name of folder.entries.keys()) this.#take(folder, name);
    this.#folders.delete(id);
  }

  #forgetAll(): void {
    for (const id of this.#folders.keys()) this.#forgotten(id);
  }

  /** The kernel forgets it too. */
  #forgotten(id: bigint): void {
    const folder = this.#folders.get(id);
    if (!folder) return;
    for (const [name, entry] of folder.entries) {
      this.#heard({ folder: id, name, before: entry, after: entry, what: "unknown" });
    }
    void this.heard?.file(id);
    this.#forget(id);
  }

  /** What is told by the caller; `tree` in it is this one's number. */
  told(news: News): void {
    if (news.about === "all") return this.#forgetAll();
    const folder = this.#folders.get(news.folder);
    if (!folder) return;
    if (news.about === "gone") return this.#forgotten(news.folder);
    if (folder.stat && !same(folder.stat, news.stat, ["mtime", "ctime"])) {
      void this.heard?.file(news.folder);
    }
    this.behind?.told(news.folder, news.stat.mode);
    folder.stat = news.stat;
    if (news.about === "entry") this.#toldEntry(news.folder, folder, news);
  }

  #toldEntry(
    id: bigint,
    folder: Folder,
    { name, entry: now }: News & { about: "entry" },
  ): void {
    // A caller may tell of names without an end.
    if (now && this.#entries >= this.most) return this.#forgetAll();
    if (this.behind?.outdates(id, name, now?.id)) return;
    const before = folder.entries.get(name);
    const after = now && { id: now.id, kind: kindOf(now.stat.mode) };
    if (!now || before?.id !== now.id) {
      this.#take(folder, name);
      if (now) this.#put({ folder: id, name, ...after!, stat: now.stat });
      if ((before || now) && !this.#own.has(`${id}/${name}`)) {
        this.#heard({ folder: id, name, before, after, what: "entry" });
      }
    } else this.#saw(before, now.stat);
  }

  /** Attributes of an entry that have just come from the caller. Resolves when the kernel knows what has changed. */
  async saw(folder: bigint, name: string, id: bigint, stat: NodeStat): Promise<void> {
    const entry = this.#folders.get(folder)?.entries.get(name);
    if (entry?.id === id) this.#saw(entry, stat);
    // News may have come just before, and be on their way to the kernel.
    await Promise.all(this.#telling);
  }

  #saw(entry: Entry, stat: NodeStat): void {
    const { folder, name } = entry;
    const before = this.ahead.writes.settled(entry.id) ? undefined : entry.stat;
    entry.stat = stat;
    this.#known.set(entry.id, entry);
    if (!before || same(before, stat, ["mtime", "ctime"])) return;
    const what = same(before, stat, ["mtime"]) ? "attributes" : "content";
    this.#heard({ folder, name, before: entry, after: entry, what });
  }

  #heard(change: Change): void {
    const told = this.heard?.changed(change);
    if (!told) return;
    this.#telling.add(told);
    void told.finally(() => this.#telling.delete(told));
  }

  /** Runs what changes these names. */
  async changing<R>(
    names: readonly (readonly [bigint, string])[],
    work: () => Promise<R>,
  ): Promise<R> {
    const keys = names.map(([folder, name]) => `${folder}/${name}`);
    for (const key of keys) this.#own.set(key, (this.#own.get(key) ?? 0) + 1);
    try {
      return await work();
    } finally {
      for (const key of keys) {
        const left = this.#own.get(key)! - 1;
        if (left > 0) this.#own.set(key, left);
        else this.#own.delete(key);
      }
    }
  }

  /** The mount has made an entry. Called, as the next ones, when the answer comes, before whatever comes after it. */
  made(folder: bigint, name: string, id: bigint, kind: NodeKind): void {
    const at = this.#folders.get(folder);
    this.touched(id);
    this.behind?.proved(folder);
    // Where news of it have come already, they had the folder's attributes too.
    if (!at || at.entries.get(name)?.id === id) return;
    at.stat = undefined;
    this.#put({ folder, name, id, kind, stat: undefined });
  }

  /** Whether an entry may be made without waiting. */
  mayBegin(folder: bigint, name: string): boolean {
    return this.behind?.may(folder) === true && this.has(folder) && !this.entry(folder, name);
  }

  /** An entry is being made: it counts from now on. Returns its number. */
  begin(folder: bigint, name: string, kind: NodeKind): bigint {
    const number = this.behind!.make(folder, name);
    this.#put({ folder, name, id: number, kind, stat: undefined });
    if (kind === "directory") {
      this.#folders.set(number, { stat: undefined, entries: new Map() });
    }
    return number;
  }

  /** It was made. Called when the answer comes. */
  begun(folder: bigint, name: string, number: bigint): void {
    this.behind!.over(folder, name);
    const at = this.#folders.get(folder);
    // Where news of it have come already, they had the folder's attributes too.
    const entry = at?.entries.get(name);
    if (entry?.id === number && !entry.stat) at!.stat = undefined;
    // The kernel has what was guessed.
    void this.heard?.file(number);
  }

  /** It could not be made, or nobody knows: something else may be there. */
  failed(folder: bigint, name: string, number: bigint, kind: NodeKind): void {
    this.behind!.over(folder, name);
    this.behind!.doubt(folder);
    const at = this.#folders.get(folder);
    if (at?.entries.get(name)?.id === number) this.#take(at, name);
    this.#forget(number);
    this.doubt(folder);
    const entry = { id: number, kind };
    this.#heard({ folder, name, before: entry, after: entry, what: "unknown" });
  }

  removed(folder: bigint, name: string): void {
    const at = this.#folders.get(folder);
    const entry = at && this.#take(at, name);
    if (!entry) return;
    at.stat = undefined;
    if (entry.kind === "directory") this.#forget(entry.id);
  }

  /** `known`: what is renamed, where the news of it have come already. */
  renamed(
    [from, name]: [bigint, string],
    [to, newName]: [bigint, string],
    known: { id: bigint; kind: NodeKind } | undefined,
  ): void {
    const entry = this.entry(from, name) ?? known;
    const [old, into] = [this.#folders.get(from), this.#folders.get(to)];
    const over = this.entry(to, newName);
    if (over?.kind === "directory") this.#forget(over.id);
    if (old) {
      old.stat = undefined;
      this.#take(old, name);
    }
    if (!into) return;
    into.stat = undefined;
    if (entry) {
      const { id, kind } = entry;
      this.#put({ folder: to, name: newName, id, kind, stat: undefined });
    } // What came there is not known.
    else this.doubt(to);
  }

  /** The mount changes a file's content or attributes, or is done with it. */
  touched(id: bigint): void {
    this.behind?.doubt(id);
    for (const one of [this.#known.get(id), this.#folders.get(id)]) if (one) one.stat = undefined;
  }

  /** An entry is not what it was taken for. */
  doubt(folder: bigint): void {
    const doubted = this.#folders.get(folder);
    if (doubted) doubted.doubted = true;
  }
}
