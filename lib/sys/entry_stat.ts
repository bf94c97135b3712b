/** What a folder's entries are, one call each, for who looks at thousands of them. */
import { libcStatx } from "./libc.ts";

export interface EntryStat {
  /** Type and permission bits. */
  mode: number;
  /** Bytes. */
  size: number;
  nlink: number;
  ino: number;
  /** Milliseconds since 1970. */
  mtime: number;
  ctime: number;
}

const AT_SYMLINK_NOFOLLOW = 0x100;
const STATX_BASIC_STATS = 0x7ff;
const stat = new Uint8Array(256);
const view = new DataView(stat.buffer);
const NAME_MAX = 255;
const name = new Uint8Array(NAME_MAX * 3 + 1);
const encoder = new TextEncoder();

const u64 = (at: number) => view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
const ms = (at: number) => u64(at) * 1000 + Math.floor(view.getUint32(at + 8, true) / 1e6);

/**
 * By the folder's descriptor, which may be one that only names it; links are not followed. Undefined for
 * what is not found, or cannot be told so: a time before 1970, say.
 */
export function entryStat(folder: number, entry: string): EntryStat | undefined {
  if (entry.length > NAME_MAX || entry.includes("\0") || !entry.isWellFormed()) return undefined;
  name[encoder.encodeInto(entry, name).written] = 0;
  if (libcStatx()(folder, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, stat) < 0) return undefined;
  // struct statx: linux/stat.h.
  if (view.getInt32(100, true) < 0 || view.getInt32(116, true) < 0) return undefined;
  return {
    nlink: view.getUint32(16, true),
    mode: view.getUint16(28, true),
    ino: u64(32),
    size: u64(40),
    ctime: ms(96),
    mtime: ms(112),
  };
}
