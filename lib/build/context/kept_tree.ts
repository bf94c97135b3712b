/**
 * One caller's context as it is kept between builds: folders, links and files by the caller's listing;
 * contents of files that a build needed. What the listing shows unchanged is not fetched again.
 *
 *     tree/     the files; those whose content nobody needed yet are empty
 *     state     what was fetched: JSON, after a line that names the machine's boot: what a power cut may
 *               have torn is not believed
 */
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import { ensureDir, removeTree } from "../../base/fs.ts";
import { Semaphore } from "../../base/mutex.ts";
import { removeTreeSync } from "../../sys/directory.ts";
import { chmodFd, close, open, writeAll } from "../../sys/fd.ts";
import {
  chmod,
  mkdir,
  mknod,
  O,
  S_IFREG,
  setTimes,
  setTimesFd,
  symlink,
  unlink,
} from "../../sys/files.ts";
import type { Ignore } from "../parse/ignore.ts";
import { LazyMount } from "./lazy_mount.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";
import { type Selection, type Tree, walk } from "./tree.ts";

/** Files that are fetched at once. */
const FETCHES = 128;
/** Entries changed before other work gets its turn. */
const TURN = 500;

interface Kept extends RemoteEntry {
  /** sha256 in hex of the content that is here; absent: it was not fetched. */
  digest?: string;
  /** Something is in the file that is not its content. */
  stale?: boolean;
}

const STATE_VERSION = 2;

let boot: string | undefined;

/** Names this run of the machine. */
async function bootId(): Promise<string> {
  return boot ??= await Deno.readTextFile("/proc/sys/kernel/random/boot_id").then(
    (text) => text.trim(),
    () => crypto.randomUUID(),
  );
}

const seconds = (ms: number) => Math.max(0, Math.floor(ms / 1000));

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Held by one build at a time. */
export class KeptTree {
  #folder: string;
  #root: string;
  #entries = new Map<string, Kept>();
  #digests = new Map<string, string>();
  #listed: string | undefined;
  #fetching = new Map<string, Promise<void>>();
  #slots = new Semaphore(FETCHES);

  private constructor(folder: string) {
    this.#folder = folder;
    this.#root = `${folder}/tree`;
  }

  /** Opens what is there of an earlier build, or begins anew. */
  static async open(folder: string): Promise<KeptTree> {
    const kept = new KeptTree(folder);
    const state = await kept.#load();
    if (state) {
      for (const entry of state.entries) kept.#entries.set(entry.path, entry);
      kept.#listed = state.listed;
      kept.#note();
    } else {
      await removeTree(folder);
      await ensureDir(folder, 0o700);
      await Deno.mkdir(`${folder}/tree`);
    }
    return kept;
  }

  async #load(): Promise<{ listed?: string; entries: Kept[] } | undefined> {
    const path = `${this.#folder}/state`;
    try {
      const [version, id, state] = JSON.parse(await Deno.readTextFile(path));
      if (version !== STATE_VERSION || id !== await bootId()) return undefined;
      // It tells what is there only until something is changed.
      await Deno.remove(path);
      return state;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /** Makes the folder what the listing says, but for contents. Synchronous work in short turns. */
  async update(
    listing: Map<string, RemoteEntry>,
    digest: string,
    signal: AbortSignal,
  ): Promise<void> {
    this.#listed = undefined;
    const touched = new Set<string>();
    const touch = (path: string) => {
      const slash = path.lastIndexOf("/");
      if (slash > 0) touched.add(path.slice(0, slash));
    };
    let steps = 0;
    const pause = async () => {
      if (++steps % TURN) return;
      signal.throwIfAborted();
      await turn();
    };
    for (const old of [...this.#entries.values()].reverse()) {
      if (listing.get(old.path)?.type === old.type && !this.#relinked(old, listing)) continue;
      if (old.type === "directory") removeTreeSync(`${this.#root}/${old.path}`);
      else unlink(`${this.#root}/${old.path}`);
      this.#entries.delete(old.path);
      touch(old.path);
      await pause();
    }
    for (const entry of listing.values()) {
      const old = this.#entries.get(entry.path);
      const host = `${this.#root}/${entry.path}`;
      if (!old) {
        if (entry.type === "directory") mkdir(host, 0o755);
        else if (entry.type === "symlink") symlink(entry.link!, host);
        else mknod(host, S_IFREG | 0o600);
        touch(entry.path);
      }
      if (entry.type === "symlink") setTimes(host, seconds(entry.mtime));
      const same = old?.stamp === entry.stamp && old.size === entry.size &&
        old.mode === entry.mode && old.mtime === entry.mtime;
      if (entry.type === "directory" && !same) touched.add(entry.path);
      const stale = old?.type === "file" && (old.digest !== undefined || old.stale === true);
      this.#entries.set(entry.path, same ? old : { ...entry, ...stale && { stale } });
      await pause();
    }
    for (const path of touched) {
      const entry = this.#entries.get(path);
      if (entry?.type !== "directory") continue;
      chmod(`${this.#root}/${path}`, entry.mode);
      setTimes(`${this.#root}/${path}`, seconds(entry.mtime));
    }
    this.#note();
    this.#listed = digest;
  }

  /** Digest of the listing that it follows. */
  get listed(): string | undefined {
    return this.#listed;
  }

  #note(): void {
    this.#digests.clear();
    for (const { path, digest } of this.#entries.values()) {
      if (digest !== undefined) this.#digests.set(path, digest);
    }
  }

  #relinked(old: Kept, listing: Map<string, RemoteEntry>): boolean {
    return old.type === "symlink" && listing.get(old.path)!.link !== old.link;
  }

  /** The tree as steps see it: what they select is fetched from `remote` before they look at it. */
  tree(remote: RemoteTree, signal: AbortSignal, onFetched: () => void): Tree {
    return {
      root: this.#root,
      digests: this.#digests,
      ownersKept: false,
      fill: (selections, options) =>
        this.#fill(remote, selections, options.exclude, signal, onFetched),
    };
  }

  async #fill(
    remote: RemoteTree,
    selections: Selection[],
    exclude: Ignore | undefined,
    signal: AbortSignal,
    onFetched: () => void,
  ): Promise<void> {
    const wanted: Promise<void>[] = [];
    const tree = { root: this.#root, ownersKept: false };
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    try {
      for (const selection of selections) {
        for await (const entry of walk(tree, selection.path, { exclude, signal: either })) {
          if (entry.kind !== "file") continue;
          const path = [selection.path, entry.path].filter((part) => part !== "").join("/");
          const kept = this.#entries.get(path);
          if (!kept || kept.digest !== undefined) continue;
          let fetch = this.#fetching.get(path);
          if (!fetch) {
            fetch = this.#slots.run(() => this.#fetch(remote, kept, either), either)
              .finally(() => this.#fetching.delete(path));
            fetch.catch((error) => failed.abort(error));
            this.#fetching.set(path, fetch);
          }
          wanted.push(fetch);
        }
      }
      await Promise.all(wanted);
    } catch (error) {
      failed.abort(error);
      // Nothing writes to the tree once this has failed.
      await Promise.allSettled(wanted);
      throw error;
    }
    if (wanted.length > 0) onFetched();
  }

  async #fetch(remote: RemoteTree, entry: Kept, signal: AbortSignal): Promise<void> {
    const host = `${this.#root}/${entry.path}`;
    const hash = createHash("sha256");
    const fd = this.#empty(entry, host);
    entry.stale = true;
    try {
      let size = 0;
      for await (const chunk of remote.read(entry.path, entry.size, signal)) {
        signal.throwIfAborted();
        size += chunk.length;
        if (size > entry.size) break;
        hash.update(chunk);
        writeAll(fd, chunk, host);
      }
      if (size !== entry.size) {
        throw new SvcError(
          "context_invalid",
          `Cannot send ${entry.path}: it became ${
            size > entry.size ? "longer" : "shorter"
          } while it was read`,
          { help: "build again when nothing writes to the context" },
        );
      }
      chmodFd(fd, entry.mode, host);
      setTimesFd(fd, seconds(entry.mtime), 0, host);
    } finally {
      close(fd);
    }
    delete entry.stale;
    entry.digest = hash.digest("hex");
    this.#digests.set(entry.path, entry.digest);
  }

  /** Opens the file, empty. A new one in its place: file systems write out what is cut off at once. */
  #empty({ path, stale }: Kept, host: string): number {
    if (!stale) return open(host, O.WRONLY | O.NOFOLLOW);
    unlink(host);
    const fd = open(host, O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW, 0o600);
    const parent = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    const folder = this.#entries.get(parent);
    if (folder) setTimes(`${this.#root}/${parent}`, seconds(folder.mtime));
    return fd;
  }

  /** The tree as other processes may mount it, contents read from `remote` when they read. */
  lazy(remote: RemoteTree, signal: AbortSignal): LazyMount {
    return new LazyMount(`${this.#folder}/mount`, this.#entries, remote, signal);
  }

  /** Writes down what is here for the next build. */
  async save(): Promise<void> {
    const path = `${this.#folder}/state`;
    const state = { listed: this.#listed, entries: [...this.#entries.values()] };
    await Deno.writeTextFile(
      `${path}.new`,
      JSON.stringify([STATE_VERSION, await bootId(), state]),
    );
    await Deno.rename(`${path}.new`, path);
  }

  /** Bytes on disk, about. */
  get size(): number {
    let bytes = 0;
    for (const { digest, size } of this.#entries.values()) {
      bytes += 4096 + (digest === undefined ? 0 : size);
    }
    return bytes;
  }
}
