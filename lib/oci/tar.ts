/**
 * The tar format of image layers: POSIX.1-2001 (ustar and pax) with the GNU extensions that real
 * archives hold. Reading is in tar_parser.ts and tar_read.ts, writing in tar_write.ts.
 *
 * Names are strings as lib/base/raw_string.ts makes them, so that names that are not UTF-8 survive.
 */
import { SvcError } from "../base/errors.ts";

export type TarType =
  | "file"
  | "hardlink"
  | "symlink"
  | "directory"
  | "char"
  | "block"
  | "fifo";

export interface TarHeader {
  /** As in the archive, without a trailing slash; may be absolute or contain "..". */
  path: string;
  type: TarType;
  /** Bytes of a file's content, holes included; 0 for other types. */
  size: number;
  /** Permission bits with setuid, setgid and sticky; no type bits. */
  mode: number;
  uid: number;
  gid: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  /** Target of a symbolic link, or the path in the archive that a hard link names; else "". */
  linkpath: string;
  devMajor: number;
  devMinor: number;
  /** Extended attributes by name. */
  xattrs: ReadonlyMap<string, Uint8Array>;
}

/** Bytes of a tar record. */
export const BLOCK = 512;

/** Bytes that fill `size` up to a whole block. */
export const padding = (size: number): number => (BLOCK - size % BLOCK) % BLOCK;

/** The prefix of pax records that hold extended attributes. */
export const PAX_XATTR = "SCHILY.xattr.";

/** The error of an archive that is damaged or not a tar archive. */
export function archiveError(what: string, cause?: unknown): SvcError {
  return new SvcError("archive_invalid", `Cannot read tar archive: ${what}`, { cause });
}
