/**
 * The only way to read a file from a tree that others made: a context, an image, a snapshot, a workload's
 * root. The kernel resolves links with the tree as "/" (openat2(2), Linux 5.6), so that nobody can swap a
 * link meanwhile. Only regular files are opened, so that no FIFO or device blocks; and reads are limited.
 */
import { SvcError } from "../base/errors.ts";
import { formatBytes } from "../base/bytes.ts";
import { SystemError } from "./errno.ts";
import { close, open, read } from "./fd.ts";
import {
  type FileStat,
  O,
  S_IFBLK,
  S_IFCHR,
  S_IFDIR,
  S_IFIFO,
  S_IFLNK,
  S_IFMT,
  S_IFREG,
  S_IFSOCK,
  statFd,
} from "./files.ts";
import { cstring, errno, libc } from "./libc.ts";
import { cbytes, tryCall } from "./system_call.ts";

/** linux/openat2.h. */
export const RESOLVE = {
  NO_XDEV: 1n,
  NO_MAGICLINKS: 2n,
  NO_SYMLINKS: 4n,
  BENEATH: 8n,
  IN_ROOT: 16n,
} as const;

const ENOENT = 2;
const EAGAIN = 11;
const EXDEV = 18;
const ENOTDIR = 20;
const ENOSYS = 38;
const ELOOP = 40;

/** The kernel gives up while the tree changes; this many tries are made. */
const TRIES = 100;

/** Encodes struct open_how. */
export function openHow(flags: number, resolve: bigint): Uint8Array<ArrayBuffer> {
  const how = new BigUint64Array([BigInt(flags | O.CLOEXEC), 0n, resolve]);
  return new Uint8Array(how.buffer);
}

/**
 * openat2(2) below an open folder. Throws SystemError, and `unsupported` where the kernel lacks the call. The
 * caller closes the descriptor.
 */
export function openBelow(folder: number, path: string, flags: number, resolve: bigint): number {
  const how = openHow(flags, resolve);
  const name = cbytes(path);
  for (let tried = 0;; tried++) {
    const fd = tryCall("openat2", folder, name, how, how.length);
    if (fd >= 0) return fd;
    const code = -fd;
    if (code === EAGAIN && tried < TRIES) continue;
    if (code !== ENOSYS) throw new SystemError(code, "openat2", path);
    throw new SvcError("unsupported", "Cannot read files of other trees: no openat2", {
      help: "use Linux 5.6 or later, and a container runtime that permits openat2",
    });
  }
}

/** A path in a tree that was found but not opened. */
export interface Found extends Disposable {
  /** Opened with O_PATH: nothing can be read from it. */
  fd: number;
  stat: FileStat;
}

export interface FindOptions {
  /** False: paths through other mounts are refused with EXDEV. */
  crossMounts?: boolean;
  /** False: a link at the end of the path is not followed. */
  follow?: boolean;
}

/**
 * Finds `path` inside `root`; undefined where nothing is there. Throws `argument_invalid` for endless links.
 * Never blocks on what it finds.
 */
export function findRooted(
  root: string,
  path: string,
  { crossMounts = true, follow = true }: FindOptions = {},
): Found | undefined {
  const folder = open(root, O.PATH | O.DIRECTORY);
  try {
    const flags = O.PATH | (follow ? 0 : O.NOFOLLOW);
    const resolve = RESOLVE.IN_ROOT | RESOLVE.NO_MAGICLINKS | (crossMounts ? 0n : RESOLVE.NO_XDEV);
    const fd = openBelow(folder, path === "" ? "." : path, flags, resolve);
    return { fd, stat: statFd(fd), [Symbol.dispose]: () => close(fd) };
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    if (error.errno === ENOENT || error.errno === ENOTDIR) return undefined;
    if (error.errno !== ELOOP) throw error;
    throw new SvcError("argument_invalid", `Cannot read ${path}: too many symbolic links`);
  } finally {
    close(folder);
  }
}

/** True where a mount stands in the way of {@linkcode FindOptions.crossMounts}. */
export const isOtherMount = (error: unknown): boolean =>
  error instanceof SystemError && error.errno === EXDEV;

const KINDS: Readonly<Record<number, string>> = {
  [S_IFIFO]: "a FIFO",
  [S_IFCHR]: "a character device",
  [S_IFBLK]: "a block device",
  [S_IFSOCK]: "a socket",
  [S_IFDIR]: "a folder",
  [S_IFLNK]: "a symbolic link",
};

/** Throws `argument_invalid` where it is not a regular file, `too_large` where it exceeds the limit. */
export function requireRegular(
  { mode, size }: Pick<FileStat, "mode" | "size">,
  path: string,
  maxBytes = Infinity,
): void {
  const kind = mode & S_IFMT;
  if (kind !== S_IFREG) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read ${path}: it is ${KINDS[kind] ?? "of a kind unknown"}, not a regular file`,
      { help: "make it a regular file" },
    );
  }
  if (size > maxBytes) throw tooLarge(path, maxBytes);
}

export function tooLarge(path: string, maxBytes: number): SvcError {
  return new SvcError(
    "too_large",
    `Cannot read ${path}: it has more than ${formatBytes(maxBytes)}`,
    { help: "make it smaller" },
  );
}

/** Opens a found regular file for reading, by its descriptor: it is the same file even if it was renamed. */
export function reopen({ fd }: Pick<Found, "fd">, path: string): number {
  // Non-blocking: a lease that another process holds on the file (fcntl(2)) is not waited for.
  const { openat } = libc();
  for (let tried = 0;; tried++) {
    const opened = openat(-1, cstring(`/proc/self/fd/${fd}`), READING, 0);
    if (opened >= 0) return opened;
    const code = errno[0];
    if ((code !== 4 && code !== EAGAIN && code !== 110) || tried >= TRIES) {
      throw new SystemError(code, "open", path);
    }
  }
}

/** Flags of open(2) for files that others may have made. */
export const READING = O.RDONLY | O.NONBLOCK | O.NOCTTY | O.CLOEXEC;

/**
 * Opens a file that a walk through a tree has just found to be a regular one. Throws `argument_invalid`
 * where it no longer is. The caller closes the descriptor.
 */
export function openRegular(host: string): number {
  const fd = open(host, READING | O.NOFOLLOW);
  try {
    requireRegular(statFd(fd), host.slice(host.lastIndexOf("/") + 1));
    return fd;
  } catch (error) {
    close(fd);
    throw error;
  }
}

/**
 * Opens a regular file inside `root` for reading; undefined where there is nothing. Throws
 * `argument_invalid` where it is something else. The caller closes the descriptor.
 */
function openRooted(root: string, path: string): number | undefined {
  using found = findRooted(root, path);
  if (!found) return undefined;
  requireRegular(found.stat, path);
  return reopen(found, path);
}

/**
 * The bytes of a regular file inside `root`; undefined where there is nothing. Throws `argument_invalid`
 * where it is something else, `too_large` beyond `maxBytes`.
 */
export function readRooted(
  root: string,
  path: string,
  maxBytes: number,
  options?: FindOptions,
): Uint8Array<ArrayBuffer> | undefined {
  using found = findRooted(root, path, options);
  if (!found) return undefined;
  requireRegular(found.stat, path, maxBytes);
  const fd = reopen(found, path);
  try {
    // One byte more than the size, since the file may grow.
    let bytes = new Uint8Array(Math.min(found.stat.size, maxBytes) + 1);
    let size = 0;
    for (let got = read(fd, bytes, path); got > 0; got = read(fd, bytes.subarray(size), path)) {
      size += got;
      if (size > maxBytes) throw tooLarge(path, maxBytes);
      if (size === bytes.length) {
        const larger = new Uint8Array(Math.min(2 * size + 4096, maxBytes + 1));
        larger.set(bytes);
        bytes = larger;
      }
    }
    return bytes.subarray(0, size);
  } finally {
    close(fd);
  }
}

/** {@linkcode readRooted} as text. */
export function readRootedText(
  root: string,
  path: string,
  maxBytes: number,
): string | undefined {
  const bytes = readRooted(root, path, maxBytes);
  return bytes && new TextDecoder().decode(bytes);
}

/** Streams a regular file inside `root`. Throws `not_found` where nothing is there. */
export async function* streamRooted(
  root: string,
  path: string,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const fd = openRooted(root, path);
  if (fd === undefined) throw new SvcError("not_found", `Cannot read ${path}: no such file`);
  let file: Deno.FsFile;
  try {
    // The same file, opened as a stream of the runtime, which reads off the event loop.
    file = await Deno.open(`/proc/self/fd/${fd}`);
  } finally {
    close(fd);
  }
  yield* file.readable;
}
