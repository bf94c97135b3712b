/**
 * Files as Linux sees them: nanosecond times, owners, devices, links. Paths are never followed at their
 * last component. All calls are synchronous and throw {@linkcode SystemError}.
 */
import { check, cstring, errno, isForeignErrno, libc } from "./libc.ts";
import { SystemError } from "./errno.ts";
import { decodeRaw } from "../base/raw_string.ts";
import { ownerError } from "./userns.ts";

export const S_IFMT = 0o170000;
export const S_IFSOCK = 0o140000;
export const S_IFLNK = 0o120000;
export const S_IFREG = 0o100000;
export const S_IFBLK = 0o060000;
export const S_IFDIR = 0o040000;
export const S_IFCHR = 0o020000;
export const S_IFIFO = 0o010000;

/** Flags of open(2); O_NOFOLLOW and O_DIRECTORY differ between x86_64 and arm64. */
export const O = {
  RDONLY: 0,
  WRONLY: 1,
  RDWR: 2,
  CREAT: 0o100,
  EXCL: 0o200,
  TRUNC: 0o1000,
  NOCTTY: 0o400,
  NONBLOCK: 0o4000,
  PATH: 0o10000000,
  CLOEXEC: 0o2000000,
  NOFOLLOW: Deno.build.arch === "aarch64" ? 0o100000 : 0o400000,
  DIRECTORY: Deno.build.arch === "aarch64" ? 0o40000 : 0o200000,
} as const;

export interface FileStat {
  /** Type and permission bits. */
  mode: number;
  uid: number;
  gid: number;
  nlink: number;
  ino: bigint;
  /** Device the file is on. */
  devMajor: number;
  devMinor: number;
  /** Device the file is, for character and block devices. */
  rdevMajor: number;
  rdevMinor: number;
  /** Bytes. */
  size: number;
  /** 512-byte blocks on disk. */
  blocks: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
}

const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_EMPTY_PATH = 0x1000;
const STATX_BASIC_STATS = 0x7ff;
const statBuffer = new Uint8Array(256);
const statView = new DataView(statBuffer.buffer);

/** A 64-bit value as a number; no file is too large for that. */
const unsigned = (at: number) =>
  statView.getUint32(at, true) + statView.getUint32(at + 4, true) * 2 ** 32;

/**
 * Like lstat(2); undefined where nothing is at `path`. `folder`: descriptor of the folder where a relative
 * path begins.
 */
export function tryLstat(path: string, folder = AT_FDCWD): FileStat | undefined {
  return stat(path, folder, AT_SYMLINK_NOFOLLOW);
}

/** Metadata of an open file. */
export function statFd(fd: number): FileStat {
  return stat("", fd, AT_EMPTY_PATH)!;
}

function stat(path: string, folder: number, flags: number): FileStat | undefined {
  const { sys_statx: statx } = libc();
  while (statx(folder, cstring(path), flags, STATX_BASIC_STATS, statBuffer) < 0) {
    const code = errno[0];
    if (code === 2 || code === 20) return undefined;
    if (!isForeignErrno(code)) throw new SystemError(code, "statx", path);
  }
  // struct statx: linux/stat.h.
  return {
    nlink: statView.getUint32(16, true),
    uid: statView.getUint32(20, true),
    gid: statView.getUint32(24, true),
    mode: statView.getUint16(28, true),
    ino: statView.getBigUint64(32, true),
    size: unsigned(40),
    blocks: unsigned(48),
    mtime: statView.getUint32(112, true) + statView.getInt32(116, true) * 2 ** 32,
    mtimeNs: statView.getUint32(120, true),
    rdevMajor: statView.getUint32(128, true),
    rdevMinor: statView.getUint32(132, true),
    devMajor: statView.getUint32(136, true),
    devMinor: statView.getUint32(140, true),
  };
}

const STATX_ATTR_MOUNT_ROOT = 0x2000;

/** Whether something is mounted at `path`; undefined where the kernel does not say (before Linux 5.8). */
export function isMountRoot(path: string): boolean | undefined {
  if (!tryLstat(path)) return false;
  // stx_attributes, and the mask of attributes that the kernel supports.
  if (!(statView.getUint32(56, true) & STATX_ATTR_MOUNT_ROOT)) return undefined;
  return (statView.getUint32(8, true) & STATX_ATTR_MOUNT_ROOT) !== 0;
}

/** Like lstat(2); throws ENOENT where there is nothing at `path`. */
export function lstat(path: string): FileStat {
  const stat = tryLstat(path);
  if (!stat) throw new SystemError(2, "statx", path);
  return stat;
}

/** The device number as mknod(2) takes it. */
function makeDevice(major: number, minor: number): bigint {
  const ma = BigInt(major), mi = BigInt(minor);
  return (mi & 0xffn) | ((ma & 0xfffn) << 8n) | ((mi & ~0xffn) << 12n) | ((ma & ~0xfffn) << 32n);
}

/** Makes a device, fifo or socket node; `mode` holds the type too. The umask applies. */
export function mknod(path: string, mode: number, major = 0, minor = 0): void {
  check(libc().mknod(cstring(path), mode, makeDevice(major, minor)), errno[0], "mknod", path);
}

export function mkdir(path: string, mode = 0o755): void {
  check(libc().mkdir(cstring(path), mode), errno[0], "mkdir", path);
}

export function rmdir(path: string): void {
  check(libc().rmdir(cstring(path)), errno[0], "rmdir", path);
}

export function unlink(path: string): void {
  check(libc().unlink(cstring(path)), errno[0], "unlink", path);
}

export function rename(from: string, to: string): void {
  check(libc().rename(cstring(from, 0), cstring(to, 1)), errno[0], "rename", from);
}

/** A hard link `path` to the existing `target`; a symbolic link is linked itself, not followed. */
export function link(target: string, path: string): void {
  check(libc().link(cstring(target, 0), cstring(path, 1)), errno[0], "link", path);
}

export function symlink(target: string, path: string): void {
  check(libc().symlink(cstring(target, 0), cstring(path, 1)), errno[0], "symlink", path);
}

const linkBuffer = new Uint8Array(4096);

export function readlink(path: string): string {
  const length = check(
    libc().readlink(cstring(path), linkBuffer, BigInt(linkBuffer.length)),
    errno[0],
    "readlink",
    path,
  );
  return decodeRaw(linkBuffer.subarray(0, length));
}

export function lchown(path: string, uid: number, gid: number): void {
  const result = libc().lchown(cstring(path), uid, gid);
  const code = errno[0];
  if (result < 0) throw ownerError(new SystemError(code, "lchown", path), uid, gid);
}

/** Follows links: Linux has no permissions on a link itself. */
export function chmod(path: string, mode: number): void {
  check(libc().chmod(cstring(path), mode), errno[0], "chmod", path);
}

const times = new BigInt64Array(4);
const timesBytes = new Uint8Array(times.buffer);

/** The argument of utimensat(2), with equal access and modification times. */
function timespecs(seconds: number, nanoseconds: number): Uint8Array<ArrayBuffer> {
  times[0] = times[2] = BigInt(seconds);
  times[1] = times[3] = BigInt(nanoseconds);
  return timesBytes;
}

/** Sets access and modification time of a file, or of a link itself. */
export function setTimes(path: string, seconds: number, nanoseconds = 0): void {
  const result = libc().utimensat(
    AT_FDCWD,
    cstring(path),
    timespecs(seconds, nanoseconds),
    AT_SYMLINK_NOFOLLOW,
  );
  check(result, errno[0], "utimensat", path);
}

/** {@linkcode setTimes} through an open descriptor. */
export function setTimesFd(fd: number, seconds: number, nanoseconds: number, path: string): void {
  check(libc().futimens(fd, timespecs(seconds, nanoseconds)), errno[0], "futimens", path);
}
