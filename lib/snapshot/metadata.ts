/** Owners, modes, attributes and times: which of them belong in a layer, and copying them. */
import type { TarType } from "../oci/tar.ts";
import { hasCode } from "../sys/errno.ts";
import { chmodFd, chownFd, cloneFd, close, open, read, skip, truncate } from "../sys/fd.ts";
import { seek, seekTo, writeAll } from "../sys/fd.ts";
import {
  chmod,
  type FileStat,
  lchown,
  mkdir,
  mknod,
  O,
  readlink,
  S_IFBLK,
  S_IFCHR,
  S_IFDIR,
  S_IFIFO,
  S_IFLNK,
  S_IFMT,
  S_IFREG,
  setTimes,
  setTimesFd,
  symlink,
} from "../sys/files.ts";
import { READING } from "../sys/rooted_file.ts";
import { readXattrs, readXattrsOf, setXattr, setXattrOf } from "../sys/xattr.ts";

/** The entry of each kind of file (its bits in the mode); none for sockets. */
export const TAR_TYPES: Readonly<Record<number, TarType | undefined>> = {
  [S_IFREG]: "file",
  [S_IFLNK]: "symlink",
  [S_IFDIR]: "directory",
  [S_IFCHR]: "char",
  [S_IFBLK]: "block",
  [S_IFIFO]: "fifo",
};

/**
 * True for attributes that are part of a layer. Overlay's attributes are not (a hostile layer could redirect
 * a folder with them), nor are SELinux labels and ACLs, which belong to the host.
 */
export function isLayerXattr(name: string): boolean {
  if (name.startsWith("trusted.overlay.") || name.startsWith("user.overlay.")) return false;
  return name === "security.capability" || name.startsWith("user.") || name.startsWith("trusted.");
}

/** The attributes of a path, or of the file behind a descriptor, that belong in a layer, in byte order of their names. */
export function layerXattrs(path: string | number): Map<string, Uint8Array> {
  const all: Map<string, Uint8Array> = typeof path === "string"
    ? readXattrs(path)
    : readXattrsOf(path);
  for (const name of all.keys()) if (!isLayerXattr(name)) all.delete(name);
  return all;
}

/**
 * Sets the attributes that belong in a layer, of a path or of the file behind a descriptor. Attributes that the file system or the kind of file cannot hold
 * are left out; returns their number.
 */
export function applyXattrs(
  path: string | number,
  xattrs: ReadonlyMap<string, Uint8Array>,
): number {
  let skipped = 0;
  for (const [name, value] of xattrs) {
    if (!isLayerXattr(name)) continue;
    try {
      if (typeof path === "string") setXattr(path, name, value);
      else setXattrOf(path, name, value);
    } catch (error) {
      // EPERM: user attributes are not allowed on links and devices.
      if (!hasCode(error, "EOPNOTSUPP", "EPERM")) throw error;
      skipped++;
    }
  }
  return skipped;
}

/** Copies owner, mode and attributes, in the order that keeps setuid and capabilities. */
export function copyMetadata(from: string, stat: FileStat, to: string): void {
  lchown(to, stat.uid, stat.gid);
  if ((stat.mode & S_IFMT) !== S_IFLNK) chmod(to, stat.mode & 0o7777);
  applyXattrs(to, layerXattrs(from));
}

/** Copies one entry that is not a folder, with its metadata and time; `to` must not exist. */
export function copyFile(from: string, stat: FileStat, to: string): void {
  const type = stat.mode & S_IFMT;
  if (type === S_IFREG) return copyRegular(from, stat, to);
  if (type === S_IFLNK) symlink(readlink(from), to);
  else mknod(to, stat.mode, stat.rdevMajor, stat.rdevMinor);
  copyMetadata(from, stat, to);
  setTimes(to, stat.mtime, stat.mtimeNs);
}

/** Makes a folder with the metadata of another; the caller sets the time last. */
export function copyFolder(from: string, stat: FileStat, to: string): void {
  if ((stat.mode & S_IFMT) !== S_IFDIR) throw new TypeError(`${from} is not a folder`);
  mkdir(to, 0o700);
  copyMetadata(from, stat, to);
}

let buffer: Uint8Array | undefined;

function copyRegular(from: string, stat: FileStat, to: string): void {
  const source = open(from, READING | O.NOFOLLOW);
  try {
    const target = open(to, O.WRONLY | O.CREAT | O.EXCL, 0o600);
    try {
      if (stat.size > 0 && !cloneFd(target, source)) copyBytes(source, target, stat, from);
      chownFd(target, stat.uid, stat.gid, to);
      chmodFd(target, stat.mode & 0o7777, to);
      applyXattrs(to, layerXattrs(from));
      setTimesFd(target, stat.mtime, stat.mtimeNs, to);
    } finally {
      close(target);
    }
  } finally {
    close(source);
  }
}

/** Copies content, holes as holes. */
function copyBytes(source: number, target: number, stat: FileStat, path: string): void {
  buffer ??= new Uint8Array(1 << 20);
  const sparse = stat.blocks * 512 < stat.size;
  for (let at = 0; at < stat.size;) {
    let end = stat.size;
    if (sparse) {
      const data = seekTo(source, "data", at);
      if (data === undefined) break;
      end = seekTo(source, "hole", data) ?? stat.size;
      seek(source, data, path);
      skip(target, data - at, path);
      at = data;
    }
    while (at < end) {
      const got = read(source, buffer.subarray(0, Math.min(buffer.length, end - at)), path);
      if (got === 0) break;
      writeAll(target, buffer.subarray(0, got), path);
      at += got;
    }
    if (!sparse) break;
  }
  if (sparse) truncate(target, stat.size, path);
}
