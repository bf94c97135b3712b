/** Open files and folders of this machine, by their descriptors. No call waits for a disk in this thread. */
import { libcReading } from "../../sys/libc.ts";
import { callElsewhere, syncFd, tryCall } from "../../sys/system_call.ts";
import { decodeRaw } from "../../base/raw_string.ts";
import { statDescriptor } from "../../sys/entry_stat.ts";
import type { Guarded } from "../blocks/guards.ts";
import { flock } from "./host_locks.ts";
import type { HostTree } from "./host_tree.ts";
import { type FileLock, type FolderEntry, type OpenFile, type OpenFolder } from "./node.ts";
import { ERRNO, FileError, type Later, type NodeKind, type NodeStat } from "./stat.ts";

/** Flag of preadv2(2): return only what is in memory. */
const RWF_NOWAIT = 8;

/** Reads what is in memory at once, and the rest in another thread. Fewer bytes only at the end of the file. */
function readAt(fd: number, offset: number, into: Uint8Array<ArrayBuffer>) {
  const iovec = new BigUint64Array(2);
  const parts = new Uint8Array(iovec.buffer);
  let have = 0;
  while (have < into.length) {
    const rest = into.subarray(have);
    iovec[0] = BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(rest)));
    iovec[1] = BigInt(rest.length);
    const got = tryCall("preadv2", fd, parts, 1, offset + have, 0, RWF_NOWAIT);
    // The data is not in memory, or the file system cannot tell.
    if (got < 0) return readElsewhere(fd, offset, into, have);
    if (got === 0) break;
    have += got;
  }
  return have;
}

async function readElsewhere(
  fd: number,
  offset: number,
  into: Uint8Array<ArrayBuffer>,
  have: number,
): Promise<number> {
  while (have < into.length) {
    const rest = into.subarray(have);
    const got = await callElsewhere("pread64", fd, rest, rest.length, offset + have);
    if (got === 0) break;
    have += got;
  }
  return have;
}

export class HostFile implements OpenFile {
  #tree: HostTree;
  #fd: number;
  readonly guarded?: Guarded;

  /** Owns `fd`: closes it at the end. */
  constructor(tree: HostTree, fd: number, readonly id: bigint) {
    this.#tree = tree;
    this.#fd = fd;
    this.guarded = tree.options.guards?.of(this);
  }

  stat(): NodeStat {
    return { ...statDescriptor(this.#fd), ...this.#tree.owner };
  }

  get fd(): number {
    return this.#fd;
  }

  read(offset: number, into: Uint8Array<ArrayBuffer>) {
    return readAt(this.#fd, offset, into);
  }

  async write(offset: number, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    let done = 0;
    while (done < bytes.length) {
      const rest = bytes.subarray(done);
      try {
        done += await callElsewhere("pwrite64", this.#fd, rest, rest.length, offset + done);
      } catch (error) {
        // The disk is full after a part was written: the next write reports it.
        if (done > 0) break;
        throw error;
      }
    }
    return done;
  }

  async truncate(size: number): Promise<void> {
    await callElsewhere("ftruncate", this.#fd, size);
  }

  sync(dataOnly: boolean): Promise<void> {
    return syncFd(this.#fd, dataOnly);
  }

  lock(lock: FileLock): Later<boolean> {
    if (lock.flock) return flock(this.#fd, lock.type);
    return this.#tree.locks.set(this, this.#fd, this.id, lock);
  }

  lockInTheWay(lock: FileLock): Promise<FileLock | undefined> {
    return this.#tree.locks.inTheWay(this.#fd, this.id, lock);
  }

  close(): void {
    this.#tree.locks.leave(this);
    this.#tree.close(this.#fd);
  }
}

const LISTED = 32 * 1024;
const SEEK_SET = 0;
/** File types in struct linux_dirent64. */
const KINDS: Record<number, NodeKind> = { 4: "directory", 8: "file", 10: "symlink" };
const UNKNOWN = 0;

/** The folder whose entries are listed. */
export interface Entries {
  /** The entry's number, from its inode. */
  idOf(ino: bigint): bigint;
  /** Called where the file system does not report the kind; undefined where the entry is gone. */
  kindOf(name: string): Promise<NodeKind | undefined>;
  shows(name: string, kind: NodeKind): boolean;
}

export class HostFolder implements OpenFolder {
  #buffer = new Uint8Array(new ArrayBuffer(LISTED));
  #view = new DataView(this.#buffer.buffer);
  /** Offset of the next entries. */
  #at = 0n;

  /** Owns `fd`: closes it at the end. */
  constructor(readonly tree: HostTree, readonly fd: number, readonly entries: Entries) {}

  /** The descriptor is at an offset that is not known. */
  lost(): this {
    this.#at = -1n;
    return this;
  }

  async read(offset: bigint): Promise<FolderEntry[]> {
    if (offset !== this.#at) {
      const at = BigInt.asIntN(64, offset);
      if (libcReading().lseek(this.fd, at, SEEK_SET) < 0) throw new FileError(ERRNO.EINVAL, "seek");
    }
    this.#at = offset;
    while (true) {
      const got = await callElsewhere("getdents64", this.fd, this.#buffer, LISTED);
      if (got === 0) return [];
      const entries = await this.#parse(got);
      if (entries.length > 0) return entries;
    }
  }

  async #parse(size: number): Promise<FolderEntry[]> {
    const entries: FolderEntry[] = [];
    for (let at = 0; at < size; at += this.#view.getUint16(at + 16, true)) {
      const next = this.#at = this.#view.getBigUint64(at + 8, true);
      const start = at + 19;
      const name = decodeRaw(this.#buffer.subarray(start, this.#buffer.indexOf(0, start)));
      if (name === "." || name === "..") continue;
      const id = this.entries.idOf(this.#view.getBigUint64(at, true));
      const type = this.#buffer[at + 18];
      const kind = type === UNKNOWN ? await this.entries.kindOf(name) : KINDS[type] ?? "special";
      if (kind && this.entries.shows(name, kind)) entries.push({ name, kind, id, next });
    }
    return entries;
  }

  sync(): Promise<void> {
    return syncFd(this.fd, false);
  }

  close(): void {
    this.tree.close(this.fd);
  }
}
