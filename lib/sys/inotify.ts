/** inotify(7): the kernel tells which entries of folders change. One queue for all folders of this process. */
import { close } from "./fd.ts";
import { callHere, callOnce, cbytes, tryCall } from "./system_call.ts";
import { decodeRaw } from "../base/raw_string.ts";

const FLAGS = 0o2004000;
const POLLIN = 1;
/** Attributes, content, the end of writing, moves, what is made and removed, and the end of the folder itself. */
const WHAT = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800;
const ONLY_FOLDERS = 0x01000000;
const OVERFLOW = 0x4000;
const IGNORED = 0x8000;
const BUFFER = 64 * 1024;
/** Reads at once: for all that the kernel keeps by default, and an end also where there is always more. */
const READS = 64;

/** Called with the name of an entry that has changed, "" for the folder itself, undefined where news were lost. */
export type FolderNews = (name: string | undefined) => void;

class Queue {
  readonly #fd = callHere("inotify_init1", FLAGS);
  readonly #buffer = new Uint8Array(new ArrayBuffer(BUFFER));
  readonly #listeners = new Map<number, Set<FolderNews>>();
  /** Resolves when the queue is closed, which it is once nothing is watched. */
  readonly ended = this.#wait();

  /** Throws `SystemError`: ENOSPC where the user may watch no more folders. */
  add(path: string, news: FolderNews): number {
    const watch = callHere("inotify_add_watch", this.#fd, cbytes(path), WHAT | ONLY_FOLDERS);
    this.#listeners.set(watch, (this.#listeners.get(watch) ?? new Set()).add(news));
    return watch;
  }

  get idle(): boolean {
    return this.#listeners.size === 0;
  }

  remove(watch: number, news: FolderNews): void {
    const all = this.#listeners.get(watch);
    if (!all?.delete(news) || all.size > 0) return;
    this.#listeners.delete(watch);
    // The kernel tells of the removal, which wakes the reader.
    tryCall("inotify_rm_watch", this.#fd, watch);
  }

  async #wait(): Promise<void> {
    const poll = new Uint8Array(new Int32Array([this.#fd, POLLIN]).buffer);
    do {
      await callOnce("ppoll", poll, 1, 0, 0, 0);
      this.hear();
    } while (!this.idle);
    if (queue === this) queue = undefined;
    close(this.#fd);
  }

  hear(): void {
    const buffer = this.#buffer;
    const view = new DataView(buffer.buffer);
    for (let n = 0; n < READS; n++) {
      const size = tryCall("read", this.#fd, buffer, buffer.length);
      if (size <= 0) return;
      for (let at = 0; at < size; at += 16 + view.getUint32(at + 12, true)) {
        const [watch, mask] = [view.getInt32(at, true), view.getUint32(at + 4, true)];
        const end = at + 16 + view.getUint32(at + 12, true);
        const name = buffer.subarray(at + 16, end);
        this.#tell(watch, mask, name.subarray(0, Math.max(0, name.indexOf(0))));
      }
    }
  }

  #tell(watch: number, mask: number, name: Uint8Array): void {
    if (mask & OVERFLOW) {
      for (const all of this.#listeners.values()) for (const news of all) news(undefined);
    } else {
      const text = mask & IGNORED ? "" : decodeRaw(name);
      for (const news of this.#listeners.get(watch) ?? []) news(text);
      if (mask & IGNORED) this.#listeners.delete(watch);
    }
  }
}

let queue: Queue | undefined;

/** Tells the changes that were made before this call, before it returns. */
export function hearFolders(): void {
  // The last thing of a queue that nobody uses is what ends its wait.
  if (queue?.idle === false) queue.hear();
}

/** Ends the watch; resolves when the queue has heard of it. */
export type EndWatch = () => Promise<void>;

/** Watches the folder at `path`. Throws `SystemError`. */
export function watchFolder(path: string, news: FolderNews): EndWatch {
  const own = queue ??= new Queue();
  const watch = own.add(path, news);
  return () => {
    own.remove(watch, news);
    return own.idle ? own.ended : Promise.resolve();
  };
}
