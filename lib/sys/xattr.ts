/** Extended attributes of files and of links themselves. Synchronous; throws {@linkcode SystemError}. */
import { decodeRaw } from "../base/raw_string.ts";
import { SystemError } from "./errno.ts";
import { check, cstring, errno, isForeignErrno, libc } from "./libc.ts";
import { cbytes, done, tryCall } from "./system_call.ts";

const EOPNOTSUPP = 95;
const ENODATA = 61;
// XATTR_SIZE_MAX and XATTR_LIST_MAX of linux/limits.h.
const buffer = new Uint8Array(65536);
const SIZE = BigInt(buffer.length);

/** Names in no particular order; none where the file system has no attributes. */
export function listXattrs(path: string): string[] {
  while (true) {
    const length = libc().llistxattr(cstring(path), buffer, SIZE);
    if (length === 0) return [];
    if (length > 0) return decodeRaw(buffer.subarray(0, length - 1)).split("\0");
    const code = errno[0];
    if (code === EOPNOTSUPP) return [];
    if (!isForeignErrno(code)) throw new SystemError(code, "llistxattr", path);
  }
}

/** True where an open file has attributes; much faster than by its path. */
export function hasXattrs(fd: number): boolean {
  while (true) {
    const length = libc().flistxattr(fd, buffer, 0n);
    if (length >= 0) return length > 0;
    const code = errno[0];
    if (code === EOPNOTSUPP) return false;
    if (!isForeignErrno(code)) throw new SystemError(code, "flistxattr");
  }
}

/** The value, or undefined where the file has no attribute of that name. */
export function getXattr(path: string, name: string): Uint8Array<ArrayBuffer> | undefined {
  while (true) {
    const length = libc().lgetxattr(cstring(path, 0), cstring(name, 1), buffer, SIZE);
    if (length >= 0) return buffer.slice(0, length);
    const code = errno[0];
    if (code === ENODATA || code === EOPNOTSUPP) return undefined;
    if (!isForeignErrno(code)) throw new SystemError(code, "lgetxattr", path);
  }
}

export function setXattr(path: string, name: string, value: Uint8Array): void {
  const result = libc().lsetxattr(
    cstring(path, 0),
    cstring(name, 1),
    value as Uint8Array<ArrayBuffer>,
    BigInt(value.length),
    0,
  );
  check(result, errno[0], `lsetxattr ${name}`, path);
}

/** Every attribute of `path`, by name in byte order. */
export function readXattrs(path: string): Map<string, Uint8Array<ArrayBuffer>> {
  const found = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const name of listXattrs(path).sort()) {
    const value = getXattr(path, name);
    if (value) found.set(name, value);
  }
  return found;
}

/** The path of an open file of any kind of descriptor, O_PATH too: these calls follow it to that very file. */
const behind = (fd: number) => cbytes(`/proc/self/fd/${fd}`);

/** Every attribute of the file behind a descriptor, by name in byte order. */
export function readXattrsOf(fd: number): Map<string, Uint8Array<ArrayBuffer>> {
  const found = new Map<string, Uint8Array<ArrayBuffer>>();
  const path = behind(fd);
  const length = tryCall("listxattr", path, buffer, buffer.length);
  if (length === -EOPNOTSUPP || length === 0) return found;
  done(length, "listxattr");
  for (const name of decodeRaw(buffer.subarray(0, length - 1)).split("\0").sort()) {
    const size = tryCall("getxattr", path, cbytes(name), buffer, buffer.length);
    if (size === -ENODATA || size === -EOPNOTSUPP) continue;
    found.set(name, buffer.slice(0, done(size, `getxattr ${name}`)));
  }
  return found;
}

/** Sets an attribute of the file behind a descriptor. */
export function setXattrOf(fd: number, name: string, value: Uint8Array): void {
  const bytes = value as Uint8Array<ArrayBuffer>;
  done(tryCall("setxattr", behind(fd), cbytes(name), bytes, bytes.length, 0), `setxattr ${name}`);
}
