/**
 * Archives that wait for the client to take them, and those it sent for a build: `<root>/outputs/<id>`.
 * They go with the one who takes them, with time, and with a restart.
 */
import { ensureDir, removeTree } from "../../base/fs.ts";
import type { CacheItem, Shelf } from "../cache/shelf.ts";

export interface SpooledFile {
  id: string;
  /** Bytes. */
  size: number;
}

export interface TakenFile {
  size: number;
  /** Read to its end, the file is gone. */
  stream: ReadableStream<Uint8Array>;
}

/** How long an archive waits for a client that does not come. */
const KEEP_MS = 3_600_000;
const READ = 256 * 1024;

export class Spool implements Disposable, Shelf {
  readonly kind = "archives";
  #root: string;
  #files = new Map<
    string,
    { size: number; used: number; timer: ReturnType<typeof setTimeout> }
  >();

  private constructor(root: string) {
    this.#root = root;
  }

  /** Clears what an earlier server left. */
  static async open(root: string): Promise<Spool> {
    await removeTree(root);
    await ensureDir(root, 0o700);
    return new Spool(root);
  }

  async put(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<SpooledFile> {
    const id = crypto.randomUUID();
    const path = `${this.#root}/${id}`;
    let size = 0;
    try {
      using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
      for await (const chunk of chunks) {
        signal.throwIfAborted();
        for (let at = 0; at < chunk.length;) at += await file.write(chunk.subarray(at));
        size += chunk.length;
      }
    } catch (error) {
      await removeTree(path);
      throw error;
    }
    this.#files.set(id, { size, used: Date.now(), timer: this.#timer(id) });
    return { id, size };
  }

  /** Undefined where there is none of that id, or no more. */
  async take(id: string): Promise<TakenFile | undefined> {
    const known = this.#files.get(id);
    if (!known) return undefined;
    // Our own: a file of the spool.
    const file = await Deno.open(`${this.#root}/${id}`);
    const drop = () => this.#drop(id);
    const stream = new ReadableStream<Uint8Array>({
      async pull(controller) {
        const buffer = new Uint8Array(READ);
        const got = await file.read(buffer);
        if (got !== null) return controller.enqueue(buffer.subarray(0, got));
        file.close();
        drop();
        controller.close();
      },
      // Whoever breaks off may come again.
      cancel: () => file.close(),
    }, { highWaterMark: 1 });
    return { size: known.size, stream };
  }

  /** The path of what a client sent; its time begins anew. */
  hold(id: string): string | undefined {
    const known = this.#files.get(id);
    if (!known) return undefined;
    clearTimeout(known.timer);
    known.timer = this.#timer(id);
    return `${this.#root}/${id}`;
  }

  /** Counted with the cache; each stays for whom it waits. */
  items(): Promise<CacheItem[]> {
    return Promise.resolve(
      [...this.#files].map(([id, { size, used }]) => ({ id, size, used, held: true })),
    );
  }

  remove(): Promise<boolean> {
    return Promise.resolve(false);
  }

  [Symbol.dispose](): void {
    for (const id of [...this.#files.keys()]) this.#drop(id);
  }

  #timer(id: string) {
    const timer = setTimeout(() => this.#drop(id), KEEP_MS);
    Deno.unrefTimer(timer);
    return timer;
  }

  #drop(id: string): void {
    clearTimeout(this.#files.get(id)?.timer);
    this.#files.delete(id);
    removeTree(`${this.#root}/${id}`).catch(() => {/* the next start clears it */});
  }
}
