/**
 * Descriptors of this machine's files. On Linux by system calls: loading node:fs takes a client longer than a
 * short build. Elsewhere, and with an unknown C library, by node:fs.
 */
import type NodeFs from "node:fs";
import { SvcError } from "../../base/errors.ts";
import { type Entry, entryAt, type EntryStat, listEntries } from "../../sys/entry_stat.ts";
import { close, open, read, seek, seekTo } from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import { libcListing, libcReading } from "../../sys/libc.ts";

export interface HostFiles {
  /** Opens a folder as the start of paths, also one that may not be listed. Does not follow a link. */
  folder(path: string): number;
  /** Opens a file for reading. Does not follow a link, and does not wait for a pipe. */
  file(path: string): number;
  /** Reads from `offset`, or where the last read ended. Fewer bytes than there is room for only at the end. */
  read(fd: number, bytes: Uint8Array, offset?: number): number;
  /** Entries of a folder; undefined where this cannot be told. Follows a link at `path`. */
  entries?(path: string): Entry[] | undefined;
  /** One entry as in `entries`. Does not follow a link at `path`. */
  entry?(path: string): EntryStat | undefined;
  /** Where an open file of `size` bytes has data; absent or undefined where this cannot be told. */
  data?(fd: number, size: number): { offset: number; length: number }[] | undefined;
  stat(fd: number): { isFile: boolean; size: number; ino: number | null; dev: number };
  close(fd: number): void;
}

/** The same value on all architectures that have it. */
const O_PATH = 0o10000000;
const O_NONBLOCK = 0o4000;

/** More stretches than these are not worth their map. */
const MAX_STRETCHES = 1 << 16;

function stretches(fd: number, size: number): { offset: number; length: number }[] | undefined {
  const found: { offset: number; length: number }[] = [];
  for (let end = 0; end < size;) {
    const offset = seekTo(fd, "data", end);
    if (offset === undefined || offset >= size) break;
    if (found.length === MAX_STRETCHES) return undefined;
    end = Math.min(seekTo(fd, "hole", offset) ?? size, size);
    found.push({ offset, length: end - offset });
  }
  return found;
}

const linux: HostFiles = {
  folder: (path) => open(path, O_PATH | O.DIRECTORY | O.NOFOLLOW),
  file: (path) => open(path, O.RDONLY | O.NOFOLLOW | O_NONBLOCK),
  read(fd, bytes, offset) {
    if (offset !== undefined) seek(fd, offset);
    return read(fd, bytes);
  },
  entries: (path) => lists() ? listEntries(path) : undefined,
  entry: (path) => lists() ? entryAt(path) : undefined,
  data: stretches,
  // Describes the open file, not what a path leads to by now.
  stat: (fd) => Deno.statSync(`/proc/self/fd/${fd}`),
  close,
};

function portable(): HostFiles {
  const fs: typeof NodeFs = process.getBuiltinModule("node:fs");
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants;
  return {
    folder: (path) => fs.openSync(path, O_PATH | O_DIRECTORY | O_NOFOLLOW),
    file: (path) => fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
    read: (fd, bytes, offset) => fs.readSync(fd, bytes, 0, bytes.length, offset ?? null),
    stat(fd) {
      const stat = fs.fstatSync(fd);
      return { isFile: stat.isFile(), size: stat.size, ino: stat.ino, dev: stat.dev };
    },
    close: (fd) => fs.closeSync(fd),
  };
}

let found: HostFiles | undefined;
/** An old C library has no statx(2) or getdents64(2). */
let listing: boolean | undefined;
const lists = () => listing ??= loads(libcListing);

export function hostFiles(): HostFiles {
  return found ??= Deno.build.os === "linux" && loads(libcReading) ? linux : portable();
}

/** True where system calls are available; otherwise files are reached by their paths. */
export const hasSystemCalls = (): boolean => hostFiles() === linux;

function loads(library: () => unknown): boolean {
  try {
    library();
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "unsupported") return false;
    throw error;
  }
}
