/**
 * One caller's context as it is kept between builds: folders, links and files by the caller's listing;
 * contents of files that a build needed. What the listing shows unchanged is not fetched again.
 *
 *     tree/     the files; those whose content nobody needed yet are empty
 *     state     what was fetched: JSON, after a line that names the machine's boot: what a power cut may
 *               have torn is not believed
 */
import { ensureDir, removeTree } from "../../base/fs.ts";
import { removeTreeSync } from "../../sys/directory.ts";
import {
  chmod,
  mkdir,
  mknod,
  S_IFDIR,
  S_IFLNK,
  S_IFMT,
  S_IFREG,
  setTimes,
  symlink,
  tryLstat,
  unlink,
} from "../../sys/files.ts";
import { type Kept, KeptContents } from "./kept_contents.ts";
import { LazyMount, type LazyOptions } from "./lazy_mount.ts";
import { ListedTree } from "./listed_tree.ts";
import type { KeptPart, Listing } from "./listing.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";
import type { Tree } from "./tree.ts";

/** Changed entries between two turns of other work; as many unchanged entries count as one. */
const TURN = 500;
const UNCHANGED = 10;

const STATE_VERSION = 4;

const TYPES = { file: S_IFREG, directory: S_IFDIR, symlink: S_IFLNK };

let boot: string | undefined;

/** Id of the running kernel's boot. */
async function bootId(): Promise<string> {
  return boot ??= await Deno.readTextFile("/proc/sys/kernel/random/boot_id").then(
    (text) => text.trim(),
    () => crypto.randomUUID(),
  );
}

const fileOf = ({ ino, size, mtime }: Deno.FileInfo) => `${ino} ${size} ${mtime?.getTime()}`;

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Held by one build at a time. */
export class KeptTree {
  #folder: string;
  #root: string;
  #entries = new Map<string, Kept>();
  #digests = new Map<string, string>();
  /** Content keys of selections, until something changes. */
  #keys = new Map<string, string>();
  /** Parts of the listing that the entries match; undefined while they may match none. */
  #parts: readonly KeptPart[] | undefined;
  /** Absent after the paths of the tree have changed. */
  #known: ListedTree | undefined;
  #contents: KeptContents;
  /** True while the state on disk describes the tree. */
  #saved = false;
  /** Identifies the state's file, to notice a change by others. */
  #file: string | undefined;

  private constructor(folder: string) {
    this.#folder = folder;
    this.#root = `${folder}/tree`;
    this.#contents = new KeptContents({
      root: this.#root,
      entries: this.#entries,
      digests: this.#digests,
      onChange: () => this.#change(),
    });
  }

  /**
   * Opens the tree of an earlier build, or begins an empty one. A tree that this server has not `seen` must
   * be as its state says; a tree that was changed meanwhile is removed and fetched again.
   */
  static async open(folder: string, seen = false): Promise<KeptTree> {
    const kept = new KeptTree(folder);
    const state = await kept.#load();
    if (state && (seen || await kept.#isWhole(state.entries))) {
      for (const entry of state.entries) kept.#entries.set(entry.path, entry);
      kept.#parts = state.parts;
      for (const { path, digest } of state.entries) {
        if (digest !== undefined) kept.#digests.set(path, digest);
      }
    } else {
      kept.#saved = false;
      await removeTree(folder);
      await ensureDir(folder, 0o700);
      await Deno.mkdir(`${folder}/tree`);
    }
    return kept;
  }

  async #load(): Promise<{ parts?: KeptPart[]; entries: Kept[] } | undefined> {
    try {
      // Our own: the state that svc wrote.
      const text = await Deno.readTextFile(`${this.#folder}/state`);
      const [version, id, state] = JSON.parse(text);
      if (version !== STATE_VERSION || id !== await bootId()) return undefined;
      if (!Array.isArray(state?.entries)) return undefined;
      this.#saved = true;
      return state;
    } catch (error) {
      const { NotFound, IsADirectory } = Deno.errors;
      // TypeError: the JSON has another shape.
      for (const kind of [NotFound, IsADirectory, SyntaxError, TypeError]) {
        if (error instanceof kind) return undefined;
      }
      throw error;
    }
  }

  /** True where all entries have the kind in the state, and fetched contents also its size and time. */
  async #isWhole(entries: readonly Kept[]): Promise<boolean> {
    let steps = 0;
    for (const { path, type, size, mtime, mtimeNs, digest } of entries) {
      const stat = tryLstat(`${this.#root}/${path}`);
      if (!stat || (stat.mode & S_IFMT) !== TYPES[type]) return false;
      const same = stat.size === size && stat.mtime === mtime && stat.mtimeNs === mtimeNs;
      if (digest !== undefined && !same) return false;
      if (++steps % TURN === 0) await turn();
    }
    return true;
  }

  /** Forgets the keys and removes the state, which would no longer describe the tree. */
  #change(): void {
    this.#keys.clear();
    if (!this.#saved) return;
    Deno.removeSync(`${this.#folder}/state`);
    this.#saved = false;
  }

  /** Makes the folder match the listing, apart from contents. Works in short synchronous turns. */
  async update({ entries: listing, parts }: Listing, signal: AbortSignal): Promise<void> {
    this.#change();
    this.#parts = undefined;
    const touched = new Set<string>();
    const touch = (path: string) => {
      this.#known = undefined;
      const slash = path.lastIndexOf("/");
      if (slash > 0) touched.add(path.slice(0, slash));
    };
    let steps = 0;
    const pause = async (changed = true) => {
      steps += changed ? UNCHANGED : 1;
      if (steps < TURN * UNCHANGED) return;
      steps = 0;
      signal.throwIfAborted();
      await turn();
    };
    for (const old of [...this.#entries.values()].reverse()) {
      const now = listing.get(old.path);
      if (now === old || now?.type === old.type && !this.#relinked(old, now)) continue;
      if (old.type === "directory") removeTreeSync(`${this.#root}/${old.path}`);
      else unlink(`${this.#root}/${old.path}`);
      this.#entries.delete(old.path);
      this.#digests.delete(old.path);
      touch(old.path);
      await pause();
    }
    for (const entry of listing.values()) {
      const old = this.#entries.get(entry.path);
      if (old !== entry) {
        if (!old) touch(entry.path);
        if (this.#place(entry, old)) touched.add(entry.path);
      }
      await pause(old !== entry);
    }
    for (const path of touched) {
      const entry = this.#entries.get(path);
      if (entry?.type !== "directory") continue;
      chmod(`${this.#root}/${path}`, entry.mode);
      setTimes(`${this.#root}/${path}`, entry.mtime, entry.mtimeNs);
    }
    // In the order of the listing: a part is stored only as its number of entries.
    const ordered = Array.from(listing.keys(), (path) => this.#entries.get(path)!);
    this.#entries.clear();
    for (const entry of ordered) this.#entries.set(entry.path, entry);
    this.#parts = parts;
  }

  /** Applies one entry of the listing over the old one. True where the entry is a folder that changed. */
  #place(entry: RemoteEntry, old: Kept | undefined): boolean {
    const { path, type } = entry;
    const host = `${this.#root}/${path}`;
    if (!old) {
      if (type === "directory") mkdir(host, 0o755);
      else if (type === "symlink") symlink(entry.link!, host);
      else mknod(host, S_IFREG | 0o600);
    }
    if (type === "symlink") setTimes(host, entry.mtime, entry.mtimeNs);
    const same = old?.stamp === entry.stamp && old.size === entry.size &&
      old.mode === entry.mode && old.mtime === entry.mtime && old.mtimeNs === entry.mtimeNs &&
      old.link === entry.link;
    if (same) return false;
    if (old?.link !== entry.link) this.#known = undefined;
    const stale = old?.type === "file" && (old.digest !== undefined || old.stale === true);
    this.#entries.set(path, { ...entry, ...stale && { stale } });
    this.#digests.delete(path);
    return type === "directory";
  }

  /** The listing that the entries match; undefined while they may match none. */
  get listed(): Listing<Kept> | undefined {
    return this.#parts && { entries: this.#entries, parts: this.#parts };
  }

  #relinked(old: Kept, now: RemoteEntry): boolean {
    return old.type === "symlink" && now.link !== old.link;
  }

  /** The tree as steps see it: contents are fetched from `remote` before a step reads them. */
  tree(remote: RemoteTree, signal: AbortSignal, onFetched: () => void): Tree {
    const known = this.#known ??= new ListedTree(this.#root, this.#entries);
    return {
      root: this.#root,
      digests: this.#digests,
      known,
      ...known.names.size > 0 && { names: known.names },
      keys: this.#keys,
      ownersKept: false,
      fill: async (selections, { exclude }) => {
        const came = await this.#contents.fill(remote, known, selections, { exclude, signal });
        if (came) onFetched();
      },
    };
  }

  /** The tree as a mount for other processes: contents are read from `remote` when a process reads them. */
  lazy(remote: RemoteTree, signal: AbortSignal, options: LazyOptions): LazyMount {
    return new LazyMount(`${this.#folder}/mount`, this.#entries, remote, signal, options);
  }

  /** Writes the state for the next build. */
  async save(): Promise<void> {
    const path = `${this.#folder}/state`;
    this.#file = undefined;
    // The state's modification time says when the tree was last used.
    if (this.#saved) await Deno.utime(path, new Date(), new Date());
    else await this.#write(path);
    this.#file = fileOf(await Deno.lstat(path));
  }

  /** True while the state on disk is the one that this server wrote. */
  async isSaved(): Promise<boolean> {
    const path = `${this.#folder}/state`;
    const file = await Deno.lstat(path).then(fileOf, () => undefined);
    return this.#saved && file !== undefined && file === this.#file;
  }

  /** Number of entries. */
  get count(): number {
    return this.#entries.size;
  }

  async #write(path: string): Promise<void> {
    const state = { parts: this.#parts, entries: [...this.#entries.values()] };
    await Deno.writeTextFile(
      `${path}.new`,
      JSON.stringify([STATE_VERSION, await bootId(), state]),
    );
    await Deno.rename(`${path}.new`, path);
    this.#saved = true;
  }

  /** Bytes on disk; an estimate. */
  get size(): number {
    let bytes = 0;
    for (const { digest, size } of this.#entries.values()) {
      bytes += 4096 + (digest === undefined ? 0 : size);
    }
    return bytes;
  }
}
