/**
 * Archives that wait for the client, and archives that a client sent for a build: `<root>/outputs/<id>`. An
 * archive is removed when it was taken, after some time, and at a restart.
 */
import { fileStream } from "../../base/file_stream.ts";
import { ensureDir, removeTree } from "../../base/fs.ts";
import type { CacheItem, Shelf } from "../cache/shelf.ts";

export interface SpooledFile {
  id: string;
  /** Bytes. */
  size: number;
}

export interface TakenFile {
  size: number;
  /** The archive's bytes; the file is removed after the last one was read. */
  stream: ReadableStream<Uint8Array>;
}

/** How long an archive waits for a client, in milliseconds. */
const KEEP_MS = 3_600_000;

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

  /** Opens the spool and removes what an earlier server left. */
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

  /** The archive with that id; undefined where there is none any more. */
  async take(id: string): Promise<TakenFile | undefined> {
    const known = this.#files.get(id);
    if (!known) return undefined;
    // Our own: a file of the spool.
    const file = await Deno.open(`${this.#root}/${id}`);
    // A client that stopped in the middle may come again.
    return { size: known.size, stream: fileStream(file, () => this.#drop(id)) };
  }

  /** The path of an archive that a client sent; its waiting time starts anew. */
  hold(id: string): string | undefined {
    const known = this.#files.get(id);
    if (!known) return undefined;
    clearTimeout(known.timer);
    known.timer = this.#timer(id);
    return `${this.#root}/${id}`;
  }

  /** Archives count towards the cache's size; all are held for their clients. */
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
    removeTree(`${this.#root}/${id}`).catch(() => {/* the next start removes it */});
  }
}
