/** Metadata of a folder's entries with few system calls, for listings of thousands of entries. */
import { close, open } from "./fd.ts";
import { O } from "./files.ts";
import { check, cstring, errno, libcListing } from "./libc.ts";

export interface EntryStat {
  /** Type and permission bits. */
  mode: number;
  /** Bytes. */
  size: number;
  nlink: number;
  ino: number;
  /** Number of the device that holds the file. */
  dev: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  ctime: number;
  ctimeNs: number;
}

export interface Entry {
  name: string;
  /**
   * Metadata, links not followed. Undefined where the entry is gone, or its values do not fit, such as a time
   * before 1970.
   */
  stat?: EntryStat;
}

const AT_SYMLINK_NOFOLLOW = 0x100;
const STATX_BASIC_STATS = 0x7ff;

/** struct statx (linux/stat.h), in words of 32 bits. */
const words = new Uint32Array(64);
const bytes = new Uint8Array(words.buffer);
const NLINK = 4, MODE = 7, INO = 8, SIZE = 10, CTIME = 24, MTIME = 28, DEV = 34;

const u64 = (at: number) => words[at] + words[at + 1] * 2 ** 32;

/** Metadata of one entry; `name` must end with a NUL. */
function entryStat(folder: number, name: Uint8Array<ArrayBuffer>): EntryStat | undefined {
  const { sys_statx } = libcListing();
  if (sys_statx(folder, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, bytes) < 0) return undefined;
  // The sign bits of the times' seconds.
  if ((words[CTIME + 1] | words[MTIME + 1]) >>> 31) return undefined;
  return {
    nlink: words[NLINK],
    mode: words[MODE] & 0xffff,
    ino: u64(INO),
    dev: words[DEV] * 2 ** 20 + words[DEV + 1],
    size: u64(SIZE),
    ctime: u64(CTIME),
    ctimeNs: words[CTIME + 2],
    mtime: u64(MTIME),
    mtimeNs: words[MTIME + 2],
  };
}

/** All that statx(2) tells of an open descriptor, also of one opened with O_PATH. */
export interface DescriptorStat {
  /** Type and permission bits. */
  mode: number;
  uid: number;
  gid: number;
  nlink: number;
  ino: bigint;
  /** Number of the device that holds the file. */
  dev: number;
  /** Bytes. */
  size: number;
  /** Number of 512-byte blocks. */
  blocks: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  atime: { s: number; ns: number };
  mtime: { s: number; ns: number };
  ctime: { s: number; ns: number };
}

const AT_EMPTY_PATH = 0x1000;
const UID = 5, GID = 6, BLOCKS = 12, ATIME = 16;
const EMPTY = new Uint8Array(1);

const time = (at: number) => ({ s: words[at] + (words[at + 1] | 0) * 2 ** 32, ns: words[at + 2] });

/** Throws {@linkcode SystemError}. */
export function statDescriptor(fd: number): DescriptorStat {
  const { sys_statx } = libcListing();
  const done = sys_statx(fd, EMPTY, AT_EMPTY_PATH, STATX_BASIC_STATS, bytes);
  check(done, errno[0], "statx");
  return found();
}

/** The same of an entry of a folder; a link is not followed. Undefined where there is none, or it cannot be told. */
export function statBelow(folder: number, name: string): DescriptorStat | undefined {
  const { sys_statx } = libcListing();
  const done = sys_statx(folder, cstring(name), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, bytes);
  return done < 0 ? undefined : found();
}

function found(): DescriptorStat {
  return {
    mode: words[MODE] & 0xffff,
    uid: words[UID],
    gid: words[GID],
    nlink: words[NLINK],
    ino: BigInt(words[INO]) | BigInt(words[INO + 1]) << 32n,
    dev: words[DEV] * 2 ** 20 + words[DEV + 1],
    size: u64(SIZE),
    blocks: u64(BLOCKS),
    atime: time(ATIME),
    mtime: time(MTIME),
    ctime: time(CTIME),
  };
}

const AT_FDCWD = -100;

/** Metadata of the file at one path, as in a listing. */
export const entryAt = (path: string): EntryStat | undefined =>
  entryStat(AT_FDCWD, new TextEncoder().encode(`${path}\0`));

const BUFFER = 64 * 1024;
/** Offsets in struct linux_dirent64: inode 8, offset 8, record length 2, type 1, then the name with its NUL. */
const LENGTH = 16, NAME = 19;
let buffer: Uint8Array<ArrayBuffer> | undefined;
const NOT_ASCII = /[^\0-\x7f]/;
const utf8 = new TextDecoder();

/**
 * Entries of the folder at `path` without "." and "..", in no particular order. A name that is not UTF-8 has
 * replacement characters, and no stat. Throws {@linkcode SystemError}.
 */
export function listEntries(path: string): Entry[] {
  const { sys_getdents64 } = libcListing();
  buffer ??= new Uint8Array(BUFFER);
  const latin1 = new TextDecoder("latin1");
  const entries: Entry[] = [];
  const fd = open(path, O.RDONLY | O.DIRECTORY);
  try {
    while (true) {
      const got = sys_getdents64(fd, buffer, BigInt(BUFFER));
      const length = check(got, errno[0], "getdents64", path);
      if (length === 0) return entries;
      // All names are decoded at once: most are ASCII, which is the same in latin1 and UTF-8.
      const text = latin1.decode(buffer.subarray(0, length));
      for (let at = 0; at < length; at += buffer[at + LENGTH] | buffer[at + LENGTH + 1] << 8) {
        const start = at + NAME;
        const end = text.indexOf("\0", start);
        let name = text.slice(start, end);
        if (name === "." || name === "..") continue;
        if (NOT_ASCII.test(name)) name = utf8.decode(buffer.subarray(start, end));
        const stat = name.includes("\uFFFD") ? undefined : entryStat(fd, buffer.subarray(start));
        entries.push({ name, stat });
      }
    }
  } finally {
    close(fd);
  }
}
