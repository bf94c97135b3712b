/** Contents of remote files on this machine's disk, by the files' identities; any number of processes may share it. */
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../../base/hash.ts";
import { collect } from "./collect.ts";
import { Content } from "./content.ts";

/** Part of the bound after whose writing it is looked at again. */
const SHARE = 1 / 8;

export interface FileCacheOptions {
  /** A folder of this user's own, with mode 0700. */
  folder: string;
  /** Bytes that are kept together. */
  chunkSize: number;
  /** Bytes on the disk above which what was not opened for long is removed. Default: no bound. */
  maxBytes?: number;
}

interface Open {
  content: Promise<Content>;
  users: number;
}

/** The folder of a cache below the one that the server's owner names, which others may see. */
export const cacheFolder = (named: string): string => join(named, "svc-file-cache");

/** Makes the folder. Throws where it is another user's, or a link, or open to others. */
export async function prepareCache(folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const info = await lstat(folder);
  if (!info.isDirectory() || info.uid !== Deno.uid() || (info.mode & 0o077) !== 0) {
    throw new Error(`${folder} is not a folder of this user alone (mode 0700)`);
  }
}

export class FileCache {
  readonly chunkSize: number;
  readonly #folder: string;
  readonly #maxBytes: number;
  readonly #open = new Map<string, Open>();
  /** Bytes that may be written before the bound is looked at. */
  #left = 0;
  #collecting: Promise<void> | undefined;

  constructor({ folder, chunkSize, maxBytes = Infinity }: FileCacheOptions) {
    this.#folder = folder;
    this.chunkSize = chunkSize;
    this.#maxBytes = maxBytes;
  }

  /**
   * What is kept of the file with this identity, which has to name its content: it changes when that does. The chunk
   * size is a part of it. Every `use` is followed by {@linkcode FileCache.leave}. Throws the system's errors.
   */
  async use(identity: string): Promise<Content> {
    const open = this.#open.get(identity) ?? { content: this.#begin(identity), users: 0 };
    this.#open.set(identity, open);
    open.users++;
    try {
      return await open.content;
    } catch (error) {
      this.#drop(identity, open);
      throw error;
    }
  }

  async #begin(identity: string): Promise<Content> {
    const name = await sha256(`${this.chunkSize}\0${identity}`);
    return await Content.open(join(this.#folder, name), this.chunkSize);
  }

  #drop(identity: string, open: Open): boolean {
    if (--open.users > 0) return false;
    if (this.#open.get(identity) === open) this.#open.delete(identity);
    return true;
  }

  async leave(identity: string): Promise<void> {
    const open = this.#open.get(identity);
    if (open && this.#drop(identity, open)) await (await open.content).close();
  }

  /** Keeps a chunk, and the cache within its bound. Never throws. */
  async put(content: Content, chunk: number, bytes: Uint8Array): Promise<void> {
    await content.put(chunk, bytes);
    this.#left -= bytes.length;
    if (this.#left > 0 || this.#maxBytes === Infinity) return;
    this.#collecting ??= this.#collect();
    await this.#collecting;
  }

  async #collect(): Promise<void> {
    try {
      const kept = await collect(this.#folder, this.#maxBytes);
      this.#left = Math.max(0, Math.min(this.#maxBytes * SHARE, this.#maxBytes - kept));
    } catch {
      // The next chunk tries again.
    } finally {
      this.#collecting = undefined;
    }
  }
}
