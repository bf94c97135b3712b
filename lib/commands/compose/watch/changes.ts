/** Changes of files, gathered until nothing has changed for a moment. */
import { SvcError, systemCode } from "../../../base/errors.ts";
import { sleep } from "../../../base/sleep.ts";

/** Milliseconds without a change after which a batch is complete. */
const QUIET_MS = 200;
/** Milliseconds after which a batch is handed on all the same: a program may write without a pause. */
const LONGEST_MS = 2000;

/** Gathers changed paths into batches. Disposing of it ends the watching. */
export class Changes implements Disposable {
  readonly #over = new AbortController();
  readonly #watchers: Deno.FsWatcher[] = [];
  #pending = new Set<string>();
  /** Of the first and the last change that is pending. */
  #first = 0;
  #last = 0;
  #wake = () => {};
  #failure: unknown;

  /** Watches from this moment on. Throws `prerequisite_missing` where the system watches no more files. */
  constructor({ deep, flat }: { deep: string[]; flat: string[] }) {
    try {
      if (deep.length > 0) this.#read(Deno.watchFs(deep, { recursive: true }));
      if (flat.length > 0) this.#read(Deno.watchFs(flat, { recursive: false }));
    } catch (cause) {
      this[Symbol.dispose]();
      throw cannotWatch(cause);
    }
  }

  async #read(watcher: Deno.FsWatcher): Promise<void> {
    this.#watchers.push(watcher);
    try {
      for await (const { kind, paths } of watcher) {
        if (kind !== "access") this.add(paths);
      }
    } catch (error) {
      this.#failure = cannotWatch(error);
      this.#wake();
    }
  }

  /** Adds paths as changed; such as those whose handling has failed. */
  add(paths: Iterable<string>): void {
    for (const path of paths) this.#pending.add(path);
    if (this.#pending.size === 0) return;
    this.#last = performance.now();
    this.#first ||= this.#last;
    this.#wake();
  }

  /** Resolves to the next batch; undefined once it is over. Throws where watching has failed. */
  async next(): Promise<string[] | undefined> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      if (this.#failure) throw this.#failure;
      const now = performance.now();
      const rest = this.#pending.size === 0
        ? Infinity
        : Math.min(this.#last + QUIET_MS, this.#first + LONGEST_MS) - now;
      if (rest <= 0) {
        const batch = [...this.#pending];
        this.#pending = new Set();
        this.#first = 0;
        return batch;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const late = new AbortController();
      await Promise.race([
        promise,
        ...(rest === Infinity
          ? []
          : [sleep(rest, late.signal).catch(() => {/* no longer needed */})]),
      ]);
      late.abort();
    }
    return undefined;
  }

  [Symbol.dispose](): void {
    this.#over.abort();
    for (const watcher of this.#watchers) {
      try {
        watcher.close();
      } catch {
        // It has ended by itself.
      }
    }
    this.#wake();
  }
}

function cannotWatch(cause: unknown): SvcError {
  const full = ["ENOSPC", "EMFILE"].includes(systemCode(cause) ?? "");
  return new SvcError(
    full ? "prerequisite_missing" : "argument_invalid",
    `Cannot watch files: ${(cause as Error).message}`,
    {
      cause,
      help: full
        ? "raise fs.inotify.max_user_watches of this machine, or watch smaller folders"
        : "see the message above",
    },
  );
}
