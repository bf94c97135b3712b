/**
 * Files below a folder that others may change meanwhile: the root of a workload. Every file is opened by its name
 * below a descriptor, and the kernel resolves links with the root as "/" (openat2(2)). So no link leads outside,
 * also while somebody swaps files. Synchronous: for a Worker, since a mount may be served by the workload itself.
 */
import { asSvcError, SvcError } from "../../../base/errors.ts";
import { SystemError } from "../../../sys/errno.ts";
import { close } from "../../../sys/fd.ts";
import { type FileStat, O, statFd } from "../../../sys/files.ts";
import { openBelow, RESOLVE } from "../../../sys/rooted_file.ts";
import { callHere } from "../../../sys/system_call.ts";

/** Most folders in each other: each takes a descriptor. */
export const DEEPEST = 256;

/** A descriptor (O_PATH) with its metadata. */
export interface Place extends Disposable {
  fd: number;
  stat: FileStat;
}

export function placeOf(fd: number): Place {
  try {
    return { fd, stat: statFd(fd), [Symbol.dispose]: () => close(fd) };
  } catch (error) {
    close(fd);
    throw error;
  }
}

/** A path to the file behind a descriptor, or to an entry of that folder. The entry itself is not followed. */
export const behind = (fd: number, name?: string): string =>
  name === undefined ? `/proc/self/fd/${fd}` : `/proc/self/fd/${fd}/${name}`;

const RESOLVED: Readonly<Record<string, string>> = {
  ELOOP: "too many links, or one that only the kernel follows",
  ENAMETOOLONG: "the path is too long",
  EINVAL: "it is no path",
  EACCES: "permission denied",
  EPERM: "operation not permitted",
  EXDEV: "it leads out of the folder",
};

const IN_THE_WAY: Readonly<Record<string, string>> = {
  EEXIST: "something has come there meanwhile",
  EROFS: "it is mounted read-only there",
  EBUSY: "something is mounted there",
  ENOTDIR: "what is there is no folder",
  EISDIR: "a folder is there",
};

/** The error of a path that could not be opened. */
export function pathError(attempted: string, error: unknown): unknown {
  if (!(error instanceof SystemError)) return error;
  const why = RESOLVED[error.code];
  if (why) return new SvcError("argument_invalid", `${attempted}: ${why}`, { cause: error });
  const inTheWay = IN_THE_WAY[error.code];
  if (!inTheWay) return asSvcError(error, attempted);
  return new SvcError("conflict", `${attempted}: ${inTheWay}`, {
    cause: error,
    help: "copy to another path",
  });
}

/** Finds a path in the root. Undefined where nothing is there. `follow`: also a link at its end. */
export function find(root: number, path: string, { follow = false } = {}): Place | undefined {
  if (!path.startsWith("/")) {
    throw new SvcError("argument_invalid", `Cannot find ${path}: the path is not absolute`, {
      help: "write it as the workload sees it, beginning with /",
    });
  }
  try {
    const flags = O.PATH | (follow ? 0 : O.NOFOLLOW);
    return placeOf(openBelow(root, path, flags, RESOLVE.IN_ROOT | RESOLVE.NO_MAGICLINKS));
  } catch (error) {
    if (error instanceof SystemError && (error.code === "ENOENT" || error.code === "ENOTDIR")) {
      return undefined;
    }
    throw pathError(`Cannot find ${path}`, error);
  }
}

/** An entry of a folder, not followed. Throws {@linkcode SystemError}. */
export const entryOf = (folder: number, name: string): Place =>
  placeOf(openBelow(folder, name, O.PATH | O.NOFOLLOW, RESOLVE.BENEATH | RESOLVE.NO_MAGICLINKS));

/** linux/magic.h: proc, sysfs, both cgroups, debugfs, tracefs, securityfs, bpf, configfs, efivarfs, pstore. */
const OF_THE_KERNEL: readonly bigint[] = [
  ...[0x9fa0n, 0x62656572n, 0x27e0ebn, 0x63677270n, 0x64626720n, 0x74726163n, 0x73636673n],
  ...[0xcafe4a11n, 0x62656570n, 0xde5e81e4n, 0x6165676cn],
];

/**
 * True where the files are the kernel's own. This process would read them with its rights, not with those of the
 * workload.
 */
export function isKernels(fd: number): boolean {
  // struct statfs begins with the type.
  const words = new BigUint64Array(16);
  callHere("fstatfs", fd, new Uint8Array(words.buffer));
  return OF_THE_KERNEL.includes(words[0]);
}

export function refuseKernels(fd: number, attempted: string): void {
  if (!isKernels(fd)) return;
  throw new SvcError("denied", `${attempted}: it is in a file system of the kernel`, {
    help: "run a command in the workload to see it: svc exec",
  });
}

/** The last part of a path; "." for the root, and where it is no name. */
export function nameOf(path: string): string {
  const last = path.split("/").filter((part) => part !== "" && part !== ".").at(-1);
  return last === undefined || last === ".." ? "." : last;
}
