/**
 * Descriptors of this machine's files. On Linux by system calls: node:fs, loaded, takes a client longer than
 * a short build takes; elsewhere, and where the C library is another one, by node:fs.
 */
import type NodeFs from "node:fs";
import { SvcError } from "../../base/errors.ts";
import { type Entry, entryAt, type EntryStat, listEntries } from "../../sys/entry_stat.ts";
import { close, open, read, seek } from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import { libcListing, libcReading } from "../../sys/libc.ts";

export interface HostFiles {
  /** Of a folder, to pass through: one that may not be listed, too. Not followed where it is a link. */
  folder(path: string): number;
  /** For reading; not followed where it is a link, not waited for where it is a pipe. */
  file(path: string): number;
  /** Fewer bytes than there is room for only at the end. From `offset`, or where the last one ended. */
  read(fd: number, bytes: Uint8Array, offset?: number): number;
  /** Of a folder; undefined where this cannot tell. Follows where `path` leads. */
  entries?(path: string): Entry[] | undefined;
  /** As `entries` has it; not followed where it is a link. */
  entry?(path: string): EntryStat | undefined;
  stat(fd: number): { isFile: boolean; size: number; ino: number | null; dev: number };
  close(fd: number): void;
}

/** The same on all machines that have it. */
const O_PATH = 0o10000000;
const O_NONBLOCK = 0o4000;

const linux: HostFiles = {
  folder: (path) => open(path, O_PATH | O.DIRECTORY | O.NOFOLLOW),
  file: (path) => open(path, O.RDONLY | O.NOFOLLOW | O_NONBLOCK),
  read(fd, bytes, offset) {
    if (offset !== undefined) seek(fd, offset);
    return read(fd, bytes);
  },
  entries: (path) => lists() ? listEntries(path) : undefined,
  entry: (path) => lists() ? entryAt(path) : undefined,
  // Of what is open, not of what a path leads to.
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

function loads(library: () => unknown): boolean {
  try {
    library();
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "unsupported") return false;
    throw error;
  }
}
