/** Linux error numbers by name (asm-generic/errno.h; x86_64 and arm64 share them). */
const NAMES: Record<number, [name: string, text: string]> = {
  1: ["EPERM", "operation not permitted"],
  2: ["ENOENT", "no such file or directory"],
  3: ["ESRCH", "no such process"],
  4: ["EINTR", "interrupted system call"],
  5: ["EIO", "input/output error"],
  6: ["ENXIO", "no such device or address"],
  7: ["E2BIG", "argument list too long"],
  9: ["EBADF", "bad file descriptor"],
  11: ["EAGAIN", "resource temporarily unavailable"],
  12: ["ENOMEM", "cannot allocate memory"],
  13: ["EACCES", "permission denied"],
  14: ["EFAULT", "bad address"],
  15: ["ENOTBLK", "block device required"],
  16: ["EBUSY", "device or resource busy"],
  17: ["EEXIST", "file exists"],
  18: ["EXDEV", "invalid cross-device link"],
  19: ["ENODEV", "no such device"],
  20: ["ENOTDIR", "not a directory"],
  21: ["EISDIR", "is a directory"],
  22: ["EINVAL", "invalid argument"],
  23: ["ENFILE", "too many open files in system"],
  24: ["EMFILE", "too many open files"],
  25: ["ENOTTY", "inappropriate ioctl for device"],
  26: ["ETXTBSY", "text file busy"],
  27: ["EFBIG", "file too large"],
  28: ["ENOSPC", "no space left on device"],
  29: ["ESPIPE", "illegal seek"],
  30: ["EROFS", "read-only file system"],
  31: ["EMLINK", "too many links"],
  32: ["EPIPE", "broken pipe"],
  34: ["ERANGE", "numerical result out of range"],
  36: ["ENAMETOOLONG", "file name too long"],
  38: ["ENOSYS", "function not implemented"],
  39: ["ENOTEMPTY", "directory not empty"],
  40: ["ELOOP", "too many levels of symbolic links"],
  61: ["ENODATA", "no data available"],
  75: ["EOVERFLOW", "value too large for defined data type"],
  95: ["EOPNOTSUPP", "operation not supported"],
  98: ["EADDRINUSE", "address already in use"],
  111: ["ECONNREFUSED", "connection refused"],
  116: ["ESTALE", "stale file handle"],
  122: ["EDQUOT", "disk quota exceeded"],
};

/** "ENOENT" for 2; "E999" for a number that is not listed. */
export function errnoName(errno: number): string {
  return NAMES[errno]?.[0] ?? `E${errno}`;
}

/** A failed system call; `code` is the symbolic name, as on node's errors. */
export class SystemError extends Error {
  override readonly name = "SystemError";
  readonly code: string;
  constructor(readonly errno: number, readonly syscall: string, readonly path?: string) {
    const text = NAMES[errno]?.[1] ?? `error ${errno}`;
    super(`${syscall}${path === undefined ? "" : ` ${path}`}: ${text} (${errnoName(errno)})`);
    this.code = errnoName(errno);
  }
}

/** True for a system error with one of these codes. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && codes.includes((error as { code?: string }).code ?? "");
}
