/**
 * Files of another machine that do not change, for a read-only mount: what was read once is read from this machine's
 * disk. A file's identity is its place, number, size and times, as they are when it is opened. A file that changes
 * while it is open is refused (ESTALE) where bytes of it would have to be fetched, so that old and new never mix.
 */
import {
  asksToWrite,
  ERRNO,
  FileError,
  type FileNode,
  type NodeStat,
  type OpenFile,
  readOnly,
} from "../files/node.ts";
import type { Content } from "./content.ts";
import type { FileCache } from "./file_cache.ts";

/** A cache, and whose files they are: contents are found by who has the same `owner` alone. */
export interface CachedBy {
  cache: FileCache;
  owner: string;
}

const time = ({ s, ns }: NodeStat["mtime"]) => `${s}.${ns}`;
const factsOf = ({ size, mtime, ctime }: NodeStat) => `${size} ${time(mtime)} ${time(ctime)}`;

class CachedFile implements OpenFile {
  readonly #node: FileNode;
  readonly #cache: FileCache;
  readonly #identity: string;
  readonly #stat: NodeStat;
  readonly #content: Content;
  /** Opened at the other machine when something is missing here. */
  #remote: Promise<OpenFile> | undefined;
  #fetching = new Map<number, Promise<Uint8Array<ArrayBuffer>>>();

  constructor(
    node: FileNode,
    { cache, identity, stat, content }: {
      cache: FileCache;
      identity: string;
      stat: NodeStat;
      content: Content;
    },
  ) {
    this.#node = node;
    this.#cache = cache;
    this.#identity = identity;
    this.#stat = stat;
    this.#content = content;
  }

  async read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    const { chunkSize } = this.#cache;
    const size = Math.max(0, Math.min(into.length, this.#stat.size - offset));
    for (let have = 0; have < size;) {
      const chunk = Math.floor((offset + have) / chunkSize);
      const within = offset + have - chunk * chunkSize;
      const part = into.subarray(have, Math.min(size, have + chunkSize - within));
      if (await this.#content.read(chunk, within, part).catch(() => 0) !== part.length) {
        const bytes = await this.#fetch(chunk);
        part.set(bytes.subarray(within, within + part.length));
      }
      have += part.length;
    }
    return size;
  }

  #fetch(chunk: number): Promise<Uint8Array<ArrayBuffer>> {
    const known = this.#fetching.get(chunk);
    if (known) return known;
    const fetching = this.#fetchOnce(chunk).finally(() => this.#fetching.delete(chunk));
    this.#fetching.set(chunk, fetching);
    return fetching;
  }

  async #fetchOnce(chunk: number): Promise<Uint8Array<ArrayBuffer>> {
    const { chunkSize } = this.#cache;
    this.#remote ??= Promise.resolve(this.#node.open(0));
    const remote = await this.#remote;
    const offset = chunk * chunkSize;
    const bytes = new Uint8Array(Math.min(chunkSize, this.#stat.size - offset));
    const got = await remote.read(offset, bytes);
    // Asked for after the bytes: where nothing has changed by now, they are of this identity.
    const now = await this.#node.stat();
    if (got !== bytes.length || factsOf(now) !== factsOf(this.#stat)) {
      throw new FileError(ERRNO.ESTALE, "the file was changed");
    }
    await this.#cache.put(this.#content, chunk, bytes);
    return bytes;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#fetching.values());
    await this.#cache.leave(this.#identity);
    const remote = await this.#remote?.catch(() => undefined);
    await remote?.close();
  }
}

export class CachedNode implements FileNode {
  readonly #node: FileNode;
  readonly #by: CachedBy;
  readonly #path: string;

  /** Closing it closes `node`. `path`: from the root of the export. */
  constructor(node: FileNode, by: CachedBy, path = "") {
    this.#node = node;
    this.#by = by;
    this.#path = path;
  }

  get kind() {
    return this.#node.kind;
  }

  get id() {
    return this.#node.id;
  }

  stat() {
    return this.#node.stat();
  }

  takeStat() {
    return this.#node.takeStat?.();
  }

  async walk(name: string): Promise<FileNode> {
    return new CachedNode(await this.#node.walk(name), this.#by, `${this.#path}/${name}`);
  }

  async open(flags: number): Promise<OpenFile> {
    if (asksToWrite(flags)) throw readOnly();
    const stat = await this.#node.stat();
    const { cache, owner } = this.#by;
    const identity = [owner, this.#path, this.id, factsOf(stat)].join("\0");
    let content: Content;
    try {
      content = await cache.use(identity);
    } catch {
      // The cache's disk does not work: the file itself does.
      return await this.#node.open(flags);
    }
    return new CachedFile(this.#node, { cache, identity, stat, content });
  }

  list() {
    return this.#node.list();
  }

  readlink() {
    return this.#node.readlink();
  }

  space() {
    if (!this.#node.space) throw new FileError(ERRNO.ENOSYS);
    return this.#node.space();
  }

  getXattr(name: string) {
    if (!this.#node.getXattr) throw new FileError(ERRNO.EOPNOTSUPP);
    return this.#node.getXattr(name);
  }

  listXattrs() {
    return this.#node.listXattrs?.() ?? Promise.resolve([]);
  }

  close(): void {
    this.#node.close();
  }
}
