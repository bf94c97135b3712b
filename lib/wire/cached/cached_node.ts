/**
 * Files of another machine that do not change, for a read-only mount: what was read once is read from this machine's
 * disk. A file's identity is its place, number, size and times, as they are when it is opened. A file that changes
 * while it is open is refused (ESTALE) where bytes of it would have to be fetched, so that old and new never mix.
 */
import { asksToWrite, type FileNode, type OpenFile, readOnly } from "../files/node.ts";
import type { Content } from "./content.ts";
import type { FileCache } from "./file_cache.ts";
import { ERRNO, FileError, type NodeKind, type NodeStat } from "../files/stat.ts";

/** A cache, and whose files they are: contents are found by who has the same `owner` alone. */
export interface CachedBy {
  cache: FileCache;
  owner: string;
}

const time = ({ s, ns }: NodeStat["mtime"]) => `${s}.${ns}`;
const factsOf = ({ size, mtime, ctime }: NodeStat) => `${size} ${time(mtime)} ${time(ctime)}`;

/** What is kept of a file as it was when it was opened. */
interface Kept {
  cache: FileCache;
  identity: string;
  stat: NodeStat;
  content: Content;
}

class CachedFile implements OpenFile {
  /** Opened at the other machine when something is missing here. */
  #remote: Promise<OpenFile> | undefined;
  #fetching = new Map<number, Promise<Uint8Array<ArrayBuffer>>>();

  constructor(private readonly node: FileNode, private readonly kept: Kept) {}

  async read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    const { cache: { chunkSize }, stat, content } = this.kept;
    const size = Math.max(0, Math.min(into.length, stat.size - offset));
    for (let have = 0; have < size;) {
      const chunk = Math.floor((offset + have) / chunkSize);
      const within = offset + have - chunk * chunkSize;
      const part = into.subarray(have, Math.min(size, have + chunkSize - within));
      if (await content.read(chunk, within, part).catch(() => 0) !== part.length) {
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
    const { cache, stat, content } = this.kept;
    this.#remote ??= Promise.resolve(this.node.open(0));
    const remote = await this.#remote;
    const offset = chunk * cache.chunkSize;
    const bytes = new Uint8Array(Math.min(cache.chunkSize, stat.size - offset));
    const got = await remote.read(offset, bytes);
    // Asked for after the bytes: where nothing has changed by now, they are of this identity.
    const now = await this.node.stat();
    if (got !== bytes.length || factsOf(now) !== factsOf(stat)) {
      throw new FileError(ERRNO.ESTALE, "the file was changed");
    }
    await cache.put(content, chunk, bytes);
    return bytes;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#fetching.values());
    await this.kept.cache.leave(this.kept.identity);
    const remote = await this.#remote?.catch(() => undefined);
    await remote?.close();
  }
}

export class CachedNode implements FileNode {
  readonly kind: NodeKind;
  readonly id: bigint;

  /** Closing it closes `node`. `path`: from the root of the export. */
  constructor(
    private readonly node: FileNode,
    private readonly by: CachedBy,
    private readonly path = "",
  ) {
    this.kind = node.kind;
    this.id = node.id;
  }

  stat() {
    return this.node.stat();
  }

  takeStat() {
    return this.node.takeStat?.();
  }

  async walk(name: string): Promise<FileNode> {
    return new CachedNode(await this.node.walk(name), this.by, `${this.path}/${name}`);
  }

  async open(flags: number): Promise<OpenFile> {
    if (asksToWrite(flags)) throw readOnly();
    const stat = await this.node.stat();
    const { cache, owner } = this.by;
    const identity = [owner, this.path, this.id, factsOf(stat)].join("\0");
    let content: Content;
    try {
      content = await cache.use(identity);
    } catch {
      // The cache's disk does not work: the file itself does.
      return await this.node.open(flags);
    }
    return new CachedFile(this.node, { cache, identity, stat, content });
  }

  list() {
    return this.node.list();
  }

  readlink() {
    return this.node.readlink();
  }

  space() {
    if (!this.node.space) throw new FileError(ERRNO.ENOSYS);
    return this.node.space();
  }

  getXattr(name: string) {
    if (!this.node.getXattr) throw new FileError(ERRNO.EOPNOTSUPP);
    return this.node.getXattr(name);
  }

  listXattrs() {
    return this.node.listXattrs?.() ?? Promise.resolve([]);
  }

  close(): void {
    this.node.close();
  }
}
