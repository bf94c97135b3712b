/**
 * File contents of a kept tree: fetched from the caller when a step selects them, and written into the tree.
 */
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import { Semaphore } from "../../base/mutex.ts";
import { chmodFd, close, open, writeAll } from "../../sys/fd.ts";
import { O, setTimes, setTimesFd, unlink } from "../../sys/files.ts";
import type { Ignore } from "../parse/ignore.ts";
import { MAX_BULK_FILE, type RemoteEntry, type RemoteTree } from "./remote.ts";
import type { KnownTree, Selection } from "./tree.ts";

/** Files that are fetched at the same time, each on a stream of its own. */
const FETCHES = 128;
/** Files written between two looks at the clock, and milliseconds before other work gets its turn. */
const LOOK = 32;
const SLICE_MS = 8;

export interface Kept extends RemoteEntry {
  /** sha256 in hex of the content; absent: the content was not fetched. */
  digest?: string;
  /** The file on disk holds other bytes than the listed content. */
  stale?: boolean;
}

export interface KeptFiles {
  /** The folder of the kept files. */
  root: string;
  entries: ReadonlyMap<string, Kept>;
  /** Digests of fetched contents, by path; fetching adds to it. */
  digests: Map<string, string>;
  /** Called before anything is written. */
  onChange: () => void;
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

function resized(path: string, longer: boolean): SvcError {
  return new SvcError(
    "context_invalid",
    `Cannot send ${path}: it became ${longer ? "longer" : "shorter"} while it was read`,
    { help: "build again when nothing writes to the context" },
  );
}

const parentOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

export class KeptContents {
  #files: KeptFiles;
  #fetching = new Map<string, Promise<void>>();
  #slots = new Semaphore(FETCHES);

  constructor(files: KeptFiles) {
    this.#files = files;
  }

  /** Fetches the missing contents of the selections. True where any were missing. */
  async fill(
    remote: RemoteTree,
    known: KnownTree,
    selections: readonly Selection[],
    { exclude, signal }: { exclude?: Ignore; signal: AbortSignal },
  ): Promise<boolean> {
    if (!this.#lacks(selections)) return false;
    const wanted = new Set<Promise<void>>();
    const many = new Map<string, Kept>();
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const begin = (paths: Iterable<string>, fetch: Promise<void>) => {
      const work = fetch.finally(() => {
        for (const path of paths) this.#fetching.delete(path);
      });
      work.catch((error) => failed.abort(error));
      for (const path of paths) this.#fetching.set(path, work);
      wanted.add(work);
    };
    try {
      signal.throwIfAborted();
      for (const selection of selections) {
        for (const { kind, inside } of known.walk(selection.path, exclude)) {
          const kept = kind === "file" ? this.#files.entries.get(inside) : undefined;
          if (!kept || kept.digest !== undefined) continue;
          const fetch = this.#fetching.get(inside);
          if (fetch) wanted.add(fetch);
          else if (remote.readMany && kept.size <= MAX_BULK_FILE) many.set(inside, kept);
          else {
            begin([inside], this.#slots.run(() => this.#fetch(remote, kept, either), either));
          }
        }
      }
      if (many.size > 0) {
        const files = [...many.values()];
        begin(many.keys().toArray(), this.#fetchMany(remote, files, either));
      }
      await Promise.all(wanted);
    } catch (error) {
      failed.abort(error);
      // All fetches must have ended before an error leaves this method: nothing writes to the tree
      // afterwards.
      await Promise.allSettled(wanted);
      throw error;
    }
    return wanted.size > 0;
  }

  /** True where a content below the selections is missing. Most builds find all of them present. */
  #lacks(selections: readonly Selection[]): boolean {
    const inside = (path: string) =>
      selections.some(({ path: from }) =>
        from === "" || path === from || path.startsWith(from) && path[from.length] === "/"
      );
    for (const { path, type, digest } of this.#files.entries.values()) {
      if (type === "file" && digest === undefined && inside(path)) return true;
    }
    return false;
  }

  async #fetch(remote: RemoteTree, entry: Kept, signal: AbortSignal): Promise<void> {
    const host = `${this.#files.root}/${entry.path}`;
    const hash = createHash("sha256");
    const fd = this.#empty(entry, host);
    this.#timesOf(parentOf(entry.path));
    try {
      let size = 0;
      for await (const chunk of remote.read(entry.path, entry.size, signal)) {
        signal.throwIfAborted();
        size += chunk.length;
        if (size > entry.size) break;
        hash.update(chunk);
        writeAll(fd, chunk, host);
      }
      if (size !== entry.size) throw resized(entry.path, size > entry.size);
      this.#finish(entry, fd, host);
    } finally {
      close(fd);
    }
    this.#note(entry, hash.digest("hex"));
  }

  /** Small files, as they come on one stream; synchronous work in short slices. */
  async #fetchMany(remote: RemoteTree, files: readonly Kept[], signal: AbortSignal): Promise<void> {
    /** Folders whose times have to be set again before other work runs. */
    const touched = new Set<string>();
    const settle = () => {
      for (const folder of touched) this.#timesOf(folder);
      touched.clear();
    };
    let at = 0;
    let began = performance.now();
    for await (const contents of remote.readMany!(files, signal)) {
      signal.throwIfAborted();
      try {
        for (const bytes of contents) {
          const entry = files[at++];
          if (bytes.length !== entry.size) throw resized(entry.path, bytes.length > entry.size);
          if (entry.stale) touched.add(parentOf(entry.path));
          this.#write(entry, bytes);
          if (at % LOOK || performance.now() - began < SLICE_MS) continue;
          settle();
          await turn();
          signal.throwIfAborted();
          began = performance.now();
        }
      } finally {
        settle();
      }
    }
    if (at !== files.length) throw new SvcError("internal", "Cannot fetch the context: files lack");
  }

  #write(entry: Kept, bytes: Uint8Array): void {
    const host = `${this.#files.root}/${entry.path}`;
    const fd = this.#empty(entry, host);
    try {
      if (bytes.length > 0) writeAll(fd, bytes, host);
      this.#finish(entry, fd, host);
    } finally {
      close(fd);
    }
    this.#note(entry, createHash("sha256").update(bytes).digest("hex"));
  }

  #finish(entry: Kept, fd: number, host: string): void {
    chmodFd(fd, entry.mode, host);
    setTimesFd(fd, entry.mtime, entry.mtimeNs, host);
  }

  #note(entry: Kept, digest: string): void {
    delete entry.stale;
    entry.digest = digest;
    this.#files.digests.set(entry.path, digest);
  }

  /**
   * Opens the file, empty. A file that has content is replaced, since file systems flush a truncated file at
   * once.
   */
  #empty(entry: Kept, host: string): number {
    this.#files.onChange();
    const { stale } = entry;
    entry.stale = true;
    if (!stale) return open(host, O.WRONLY | O.NOFOLLOW);
    unlink(host);
    return open(host, O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW, 0o600);
  }

  #timesOf(folder: string): void {
    const entry = this.#files.entries.get(folder);
    if (entry) setTimes(`${this.#files.root}/${folder}`, entry.mtime, entry.mtimeNs);
  }
}
