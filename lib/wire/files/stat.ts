/** What nodes say of themselves, and how they fail: shared by nodes, protocols and servers. */

/** The result at once, or after waiting for the disk or another machine. */
export type Later<T> = T | Promise<T>;

export type NodeKind = "file" | "directory" | "symlink" | "special";

/** Linux's error numbers, which the protocols use on every machine. */
export const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  EBADF: 9,
  EAGAIN: 11,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  EXDEV: 18,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  EMFILE: 24,
  EFBIG: 27,
  ENOSPC: 28,
  EROFS: 30,
  ERANGE: 34,
  ENAMETOOLONG: 36,
  ENOSYS: 38,
  ENOTEMPTY: 39,
  ELOOP: 40,
  ENODATA: 61,
  EOPNOTSUPP: 95,
  ESTALE: 116,
  EDQUOT: 122,
} as const;

/** The error of a file operation, as one of Linux's numbers. */
export class FileError extends Error {
  constructor(readonly errno: number, what = `error ${errno}`) {
    super(what);
  }
}

/** Seconds since 1970, rounded down, and the nanoseconds above them. */
export interface FileTime {
  s: number;
  ns: number;
}

export interface NodeStat {
  /** Includes the type's bits, as on Linux. */
  mode: number;
  uid: number;
  gid: number;
  nlink: number;
  /** Bytes. */
  size: number;
  /** Number of 512-byte blocks. */
  blocks: number;
  atime: FileTime;
  mtime: FileTime;
  ctime: FileTime;
  /** Of what is just being made or changed: its machine has not been heard, and times are not final. */
  guess?: true;
}
