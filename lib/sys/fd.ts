/** Raw file descriptors: synchronous reads and writes for Workers, locks, and file system sync. */
import { SystemError } from "./errno.ts";
import { O } from "./files.ts";
import { check, cstring, errno, isForeignErrno, libc, libcReading } from "./libc.ts";
import { ownerError } from "./userns.ts";

/** Opens close-on-exec. The caller closes with {@linkcode close}. */
export function open(path: string, flags: number, mode = 0): number {
  while (true) {
    const opened = libcReading().open(cstring(path), flags | O.CLOEXEC, mode);
    if (opened >= 0) return opened;
    const code = errno[0];
    if (!isForeignErrno(code)) throw new SystemError(code, "open", path);
  }
}

/** Opens a file for reading; the descriptor stays open in the program that execve(2) starts in this process. */
export function openInherited(path: string): number {
  return check(libcReading().open(cstring(path), O.RDONLY, 0), errno[0], "open", path);
}

export function close(fd: number): void {
  libcReading().close(fd);
}

/** Reads up to `buffer.length` bytes; 0 at the end. */
export function read(fd: number, buffer: Uint8Array, path?: string): number {
  while (true) {
    const got = libcReading().read(fd, buffer as Uint8Array<ArrayBuffer>, BigInt(buffer.length));
    if (got >= 0) return got;
    const code = errno[0];
    if (!isForeignErrno(code)) throw new SystemError(code, "read", path);
  }
}

/** Writes all of `bytes`. */
export function writeAll(fd: number, bytes: Uint8Array, path?: string): void {
  let rest = bytes as Uint8Array<ArrayBuffer>;
  while (rest.length > 0) {
    const put = libc().write(fd, rest, BigInt(rest.length));
    if (put < 0) {
      const code = errno[0];
      if (isForeignErrno(code)) continue;
      throw new SystemError(code, "write", path);
    }
    rest = rest.subarray(put);
  }
}

const SEEK_SET = 0;
const SEEK_CUR = 1;
const SEEK_DATA = 3;
const SEEK_HOLE = 4;

/** Moves the position to `offset` from the start. */
export function seek(fd: number, offset: number, path?: string): void {
  check(libcReading().lseek(fd, BigInt(offset), SEEK_SET), errno[0], "lseek", path);
}

/** Moves the position forward: what is skipped past the end becomes a hole. */
export function skip(fd: number, length: number, path?: string): void {
  check(libcReading().lseek(fd, BigInt(length), SEEK_CUR), errno[0], "lseek", path);
}

/** The next byte at or after `offset` that is data (or in a hole); undefined where there is none. */
export function seekTo(fd: number, kind: "data" | "hole", offset: number): number | undefined {
  const at = libcReading().lseek(fd, BigInt(offset), kind === "data" ? SEEK_DATA : SEEK_HOLE);
  if (at >= 0) return Number(at);
  const code = errno[0];
  if (code === 6) return undefined;
  throw new SystemError(code, "lseek");
}

export function truncate(fd: number, length: number, path?: string): void {
  check(libc().ftruncate(fd, BigInt(length)), errno[0], "ftruncate", path);
}

export function chmodFd(fd: number, mode: number, path?: string): void {
  check(libc().fchmod(fd, mode), errno[0], "fchmod", path);
}

export function chownFd(fd: number, uid: number, gid: number, path?: string): void {
  const result = libc().fchown(fd, uid, gid);
  const code = errno[0];
  if (result < 0) throw ownerError(new SystemError(code, "fchown", path), uid, gid);
}

const FICLONE = 0x40049409n;

/** Shares the bytes of `from` with the empty file `to` (reflink); false where that cannot be done. */
export function cloneFd(to: number, from: number): boolean {
  return libc().ioctl(to, FICLONE, BigInt(from)) === 0;
}

/** Writes everything pending on the file system of `path` to disk, without blocking the event loop. */
export async function syncFileSystem(path: string): Promise<void> {
  const fd = open(path, O.RDONLY);
  try {
    // errno belongs to another thread here; a failed writeback is reported as an input/output error.
    if (await libc().syncfs(fd) < 0) throw new SystemError(5, "syncfs", path);
  } finally {
    close(fd);
  }
}

const SYNC_FILE_RANGE_WRITE = 2;

/** Starts the writeback of a range of a file, so that a later sync has less to do. Guarantees nothing. */
export async function startWriteback(fd: number, offset: number, length: number): Promise<void> {
  await libc().sync_file_range(fd, BigInt(offset), BigInt(length), SYNC_FILE_RANGE_WRITE);
}

/** Memory outside the engine, which another thread may use even after the engine has ended. Never freed. */
export class Block {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #place: Deno.PointerObject;

  constructor(size: number) {
    const place = libc().malloc(BigInt(size));
    if (!place) throw new SystemError(12, "malloc");
    this.#place = place;
    this.bytes = new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(place, size));
  }

  /** Writes the first `length` bytes in another thread; they must not change until this resolves. */
  async writeTo(fd: number, length: number, path?: string): Promise<void> {
    const put = await libc().write_elsewhere(fd, this.#place, BigInt(length));
    // The reason of a short write is in the other thread's errno: the rest is written in this thread.
    if (put < length) writeAll(fd, this.bytes.subarray(Math.max(0, put), length), path);
  }
}

const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Takes an exclusive flock(2) on `path` (made if missing) that ends with this process, or when disposed;
 * undefined where another holds it.
 */
export function tryLock(path: string): Disposable | undefined {
  const fd = open(path, O.RDWR | O.CREAT, 0o644);
  if (libc().flock(fd, LOCK_EX | LOCK_NB) < 0) {
    const code = errno[0];
    close(fd);
    if (code === 11) return undefined;
    throw new SystemError(code, "flock", path);
  }
  return { [Symbol.dispose]: () => close(fd) };
}

/** A path to the file behind a descriptor, whatever its name is by now. */
export const procPath = (fd: number): string => `/proc/self/fd/${fd}`;
