/**
 * Files as 9P and FUSE serve them, and as a 9P client sees them: the one seam between sources of files (a
 * folder of this machine, a listing, another machine) and servers of files. A node is a file, a folder or a
 * link, not a path: it stays the same file when that is renamed, and is not looked up again.
 */
import { systemCode } from "../../base/errors.ts";
import { SystemError } from "../../sys/errno.ts";
import type { Guarded } from "../blocks/guards.ts";
import {
  ERRNO,
  FileError,
  type FileTime,
  type Later,
  type NodeKind,
  type NodeStat,
} from "./stat.ts";

/** Mode bits of the file's type. */
export const TYPE_MASK = 0o170000;
export const TYPE_BITS = {
  file: 0o100000,
  directory: 0o040000,
  symlink: 0o120000,
  fifo: 0o010000,
  socket: 0o140000,
} as const;

/** The kind in a mode with type bits. */
export function kindOf(mode: number): NodeKind {
  const type = mode & TYPE_MASK;
  if (type === TYPE_BITS.file) return "file";
  if (type === TYPE_BITS.directory) return "directory";
  return type === TYPE_BITS.symlink ? "symlink" : "special";
}

/** Turns any error into a {@linkcode FileError}. */
export function asFileError(error: unknown): FileError {
  if (error instanceof FileError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof SystemError) return new FileError(error.errno, message);
  return new FileError(ERRNO[systemCode(error) as keyof typeof ERRNO] ?? ERRNO.EIO, message);
}

/** Bytes at most: of a name, of a link's target, of an attribute's value. */
export const MAX_NAME = 255;
export const MAX_TARGET = 4095;
export const MAX_XATTR = 64 * 1024;

const NOT_ASCII = /[^\0-\x7f]/;

/** Throws ENOENT for a name that is not one of an entry, such as "..". */
export function checkName(name: string): void {
  if (name === "" || name === "." || name === ".." || /[/\0]/.test(name)) {
    throw new FileError(ERRNO.ENOENT, `${JSON.stringify(name)} names no entry`);
  }
  if (name.length > MAX_NAME || NOT_ASCII.test(name) && bytesOf(name) > MAX_NAME) {
    throw new FileError(ERRNO.ENAMETOOLONG, "the name is too long");
  }
}

/** Length in bytes. A lone surrogate stands for one byte that is not UTF-8 (lib/base/raw_string.ts). */
function bytesOf(name: string): number {
  let size = 0;
  for (const char of name) {
    const code = char.codePointAt(0)!;
    const lone = code >= 0xd800 && code <= 0xdfff;
    size += code < 0x80 || lone ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return size;
}

/** The attributes to change; "now" is the clock of the machine that has the file. */
export interface Changes {
  /** Permission bits. */
  mode?: number;
  uid?: number;
  gid?: number;
  size?: number;
  atime?: FileTime | "now";
  mtime?: FileTime | "now";
}

/** Space of a file system. */
export interface Space {
  /** Bytes of a block. */
  blockSize: number;
  blocks: bigint;
  free: bigint;
  available: bigint;
  files: bigint;
  filesFree: bigint;
}

/** A byte range from `start` on; `length` 0: to the end of the file, wherever that is later. */
export interface FileLock {
  type: "read" | "write" | "none";
  /** A lock of flock(2): of the open file and its whole, without regard to range and owner. */
  flock?: boolean;
  start: bigint;
  length: bigint;
  /** Owner of the lock, the same for all open files of a process. */
  owner: string;
}

/** Flags of open(2) with Linux's values on x86, which the protocols use. */
export const OPEN = {
  ACCESS: 0o3,
  WRONLY: 0o1,
  RDWR: 0o2,
  CREAT: 0o100,
  EXCL: 0o200,
  TRUNC: 0o1000,
  APPEND: 0o2000,
  DSYNC: 0o10000,
  SYNC: 0o4010000,
} as const;

/** Flags of open that need write access. */
const WRITING = OPEN.ACCESS | OPEN.CREAT | OPEN.TRUNC;
export const asksToWrite = (flags: number): boolean => (flags & WRITING) !== 0;

/** An open file, read and written at offsets. Calls may overlap. */
export interface OpenFile {
  /** Fills `into`; returns fewer bytes only at the end of the file. */
  read(offset: number, into: Uint8Array<ArrayBuffer>): Later<number>;
  /** Appends if the file was opened to append. Returns the bytes written: all, unless space runs out. */
  write?(offset: number, bytes: Uint8Array<ArrayBuffer>): Later<number>;
  truncate?(size: number): Later<void>;
  stat?(): Later<NodeStat>;
  /** Resolves when what was written is with the machine that has the file. Throws what a write has failed with. */
  flush?(): Later<void>;
  /** Resolves when the data is on the disk of the machine that has the file. */
  sync?(dataOnly: boolean): Later<void>;
  /** Does not wait: false where another owner holds a conflicting lock. */
  lock?(lock: FileLock): Later<boolean>;
  /** A lock that conflicts with this one. */
  lockInTheWay?(lock: FileLock): Later<FileLock | undefined>;
  /** Where the other end keeps blocks of it (lib/wire/blocks). */
  readonly guarded?: Guarded;
  close(): Later<void>;
}

export interface FolderEntry {
  name: string;
  kind: NodeKind;
  id: bigint;
  /** Offset of the entries after this one. */
  next: bigint;
}

/** A folder that is being listed; "." and ".." are not among its entries. */
export interface OpenFolder {
  /** Some entries from an offset on: 0, or the `next` of an earlier entry. An empty list: the end. */
  read(offset: bigint): Later<readonly FolderEntry[]>;
  sync?(): Later<void>;
  close(): Later<void>;
}

/** The calls that change a node: the entries of a folder, the attributes of a file. */
export interface NodeWriter {
  /** Creates a file, or opens an existing one unless OPEN.EXCL is set. Does not follow a link: ELOOP. */
  create(name: string, flags: number, mode: number): Later<{ node: FileNode; file: OpenFile }>;
  mkdir(name: string, mode: number): Later<FileNode>;
  symlink(name: string, target: string): Later<FileNode>;
  /** Makes a FIFO or a socket; EPERM for a device. */
  mknod(name: string, mode: number): Later<FileNode>;
  /** Adds a name in this folder for a file of the same tree; EXDEV for a file of another. */
  link(name: string, target: FileNode): Later<void>;
  remove(name: string, kind: "folder" | "other"): Later<void>;
  /** Replaces an existing entry; EXDEV for a folder of another tree. */
  rename(name: string, to: FileNode, newName: string): Later<void>;
  change(changes: Changes): Later<void>;
  setXattr(name: string, value: Uint8Array<ArrayBuffer>, flags: number): Later<void>;
  removeXattr(name: string): Later<void>;
  /** Makes new files and folders with this number (given.ts). */
  numbered?(given: bigint): Pick<NodeWriter, "create" | "mkdir">;
}

/** Calls throw {@linkcode FileError}. Whoever gets a node closes it. */
export interface FileNode {
  readonly kind: NodeKind;
  /** The same for all nodes of a file; not reused while a node of that file is open. */
  readonly id: bigint;
  stat(): Later<NodeStat>;
  /** Attributes that came with the node, or with the answer to a change of it; only once, right after it. */
  takeStat?(): NodeStat | undefined;
  /** An entry of a folder; a link is not followed. ENOENT where there is no such entry. */
  walk(name: string): Later<FileNode>;
  open(flags: number): Later<OpenFile>;
  list(): Later<OpenFolder>;
  readlink(): Later<string>;
  space?(): Later<Space>;
  getXattr?(name: string): Later<Uint8Array<ArrayBuffer>>;
  listXattrs?(): Promise<readonly string[]>;
  /**
   * Watches a folder: `news` is called with the name of each entry that changes, "" for the folder itself, and
   * undefined where news were lost. Throws where that cannot be: on a file system of several machines, and where the
   * system watches no more.
   */
  watch?(news: (name: string | undefined) => void): WatchedFolder;
  /** Attributes that are true now, without asking anybody: whoever keeps them is told of their end. */
  known?(): NodeStat | undefined;
  /** Another node of the same file was found, which will be closed. */
  join?(other: FileNode): void;
  /** True where it is known in that way that the folder's entry has this number; undefined: that there is none. */
  knows?(name: string, id: bigint | undefined): boolean;
  /** Absent on nodes of a read-only export. */
  readonly writer?: NodeWriter;
  close(): void;
}

/** An entry of a folder with its attributes. */
export interface KnownEntry {
  name: string;
  id: bigint;
  stat: NodeStat;
}

/** A folder whose changes are told. Its answers are of this moment. */
export interface WatchedFolder {
  readonly id: bigint;
  stat(): NodeStat;
  /** All entries; undefined where there are more than `most`. */
  entries(most: number): KnownEntry[] | undefined;
  entry(name: string): KnownEntry | undefined;
  /** Resolves when nothing is told any more. */
  end(): Promise<void>;
}

export const readOnly = () => new FileError(ERRNO.EROFS, "it is read-only");

/** Throws EROFS for a node without a writer. */
export function writerOf(node: FileNode): NodeWriter {
  if (!node.writer) throw readOnly();
  return node.writer;
}

/** Offsets for "." and "..": no file system uses values this high. */
const AFTER_DOT = (1n << 63n) - 3n;
const AFTER_DOTS = (1n << 63n) - 2n;

/**
 * Lists a folder in parts whose size the client chooses, "." and ".." first. Entries that did not fit into one
 * answer are kept for the next. ".." is the folder itself: its parent is not shown.
 */
export class Listing {
  #rest: readonly FolderEntry[] = [];
  #at = 0n;

  constructor(readonly folder: OpenFolder, readonly id: bigint) {}

  /**
   * Passes entries from an offset on to `fits` until it returns false. Returns false where not even the first
   * entry fitted.
   */
  async take(offset: bigint, fits: (entry: FolderEntry) => boolean): Promise<boolean> {
    if (offset !== this.#at) this.#rest = [];
    this.#at = offset;
    let any = false;
    while (true) {
      if (this.#rest.length === 0) this.#rest = await this.#read(this.#at);
      if (this.#rest.length === 0) return true;
      let taken = 0;
      while (taken < this.#rest.length && fits(this.#rest[taken])) {
        this.#at = this.#rest[taken++].next;
        any = true;
      }
      const full = taken < this.#rest.length;
      this.#rest = this.#rest.slice(taken);
      if (full) return any;
    }
  }

  #read(at: bigint): Later<readonly FolderEntry[]> {
    const { id } = this;
    const dots: FolderEntry[] = [
      { name: ".", kind: "directory", id, next: AFTER_DOT },
      { name: "..", kind: "directory", id, next: AFTER_DOTS },
    ];
    if (at === 0n) return dots;
    if (at === AFTER_DOT) return dots.slice(1);
    return this.folder.read(at === AFTER_DOTS ? 0n : at);
  }
}
