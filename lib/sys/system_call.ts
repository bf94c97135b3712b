/**
 * System calls by number: in this thread where they do not block, in another thread where they may. A table
 * of numbers replaces one C library symbol per call, since a client would pay for all symbols at its start.
 */
import { encodeRaw } from "../base/raw_string.ts";
import { SystemError } from "./errno.ts";
import { errno, isForeignErrno, libcCalls } from "./libc.ts";

const ARM = Deno.build.arch === "aarch64";

/** Numbers of asm-generic/unistd.h (arm64) and of x86_64. */
const NUMBERS = {
  read: ARM ? 63n : 0n,
  inotify_init1: ARM ? 26n : 294n,
  inotify_add_watch: ARM ? 27n : 254n,
  inotify_rm_watch: ARM ? 28n : 255n,
  ppoll: ARM ? 73n : 271n,
  prlimit64: ARM ? 261n : 302n,
  write: ARM ? 64n : 1n,
  close: ARM ? 57n : 3n,
  pread64: ARM ? 67n : 17n,
  pwrite64: ARM ? 68n : 18n,
  fcntl: ARM ? 25n : 72n,
  flock: ARM ? 32n : 73n,
  fsync: ARM ? 82n : 74n,
  fdatasync: ARM ? 83n : 75n,
  truncate: ARM ? 45n : 76n,
  ftruncate: ARM ? 46n : 77n,
  fchmod: ARM ? 52n : 91n,
  fstatfs: ARM ? 44n : 138n,
  setxattr: ARM ? 5n : 188n,
  getxattr: ARM ? 8n : 191n,
  listxattr: ARM ? 11n : 194n,
  removexattr: ARM ? 14n : 197n,
  getdents64: ARM ? 61n : 217n,
  connect: ARM ? 203n : 42n,
  openat: ARM ? 56n : 257n,
  mkdirat: ARM ? 34n : 258n,
  mknodat: ARM ? 33n : 259n,
  unlinkat: ARM ? 35n : 263n,
  linkat: ARM ? 37n : 265n,
  symlinkat: ARM ? 36n : 266n,
  readlinkat: ARM ? 78n : 267n,
  fchmodat: ARM ? 53n : 268n,
  utimensat: ARM ? 88n : 280n,
  renameat2: ARM ? 276n : 316n,
  prctl: ARM ? 167n : 157n,
  preadv2: ARM ? 286n : 327n,
  statx: ARM ? 291n : 332n,
  // These numbers are the same on all machines.
  move_mount: 429n,
  pidfd_open: 434n,
  pidfd_getfd: 438n,
  fsopen: 430n,
  fsconfig: 431n,
  fsmount: 432n,
  openat2: 437n,
  mount_setattr: 442n,
} as const;

export type SystemCall = keyof typeof NUMBERS;
export type Bytes = Uint8Array<ArrayBuffer>;
export type Argument = number | bigint | Bytes;

const EIO = 5;
const EAGAIN = 11;
/** Calls that may return EAGAIN themselves, where they would block. */
const MAY_WAIT: ReadonlySet<SystemCall> = new Set(["read", "openat2", "preadv2", "fcntl", "flock"]);
const TRIES = 100;

/** Memory that calls in other threads use: held here so that it is not collected. */
const held = new Set<readonly Argument[]>();

/**
 * Text with its NUL, in memory of its own. Throws EINVAL where the text holds a NUL, ENAMETOOLONG past 4095
 * bytes.
 */
export function cbytes(text: string): Bytes {
  const raw = encodeRaw(text);
  if (raw.includes(0)) throw new SystemError(22, "path", JSON.stringify(text.slice(0, 80)));
  if (raw.length > 4095) throw new SystemError(36, "path", `${text.slice(0, 80)}…`);
  const bytes = new Uint8Array(new ArrayBuffer(raw.length + 1));
  bytes.set(raw);
  return bytes;
}

/** The address of the bytes. */
const place = (bytes: Bytes): bigint =>
  BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)));

/** Six arguments for any system call: the kernel ignores the ones that a call does not take. */
function six(args: readonly Argument[]): [bigint, bigint, bigint, bigint, bigint, bigint] {
  const [a = 0n, b = 0n, c = 0n, d = 0n, e = 0n, f = 0n] = args.map((arg) =>
    typeof arg === "bigint" ? arg : typeof arg === "number" ? BigInt(arg) : place(arg)
  );
  return [a, b, c, d, e, f];
}

/** Makes a call in this thread. Returns the negative errno where the call fails. */
export function tryCall(name: SystemCall, ...args: Argument[]): number {
  const { system_call } = libcCalls();
  const [a, b, c, d, e, f] = six(args);
  const number = NUMBERS[name];
  for (let tried = 0;; tried++) {
    const result = system_call(number, a, b, c, d, e, f);
    if (result >= 0) return result;
    const code = errno[0];
    if (!isForeignErrno(code) || tried === TRIES || code === EAGAIN && MAY_WAIT.has(name)) {
      return -code;
    }
  }
}

/** Returns the result of {@linkcode tryCall}; throws an error of it as {@linkcode SystemError}. */
export function done(result: number, what: string, path?: string): number {
  if (result < 0) throw new SystemError(-result, what, path);
  return result;
}

/** Makes a call in this thread. Throws {@linkcode SystemError}. */
export function callHere(name: SystemCall, ...args: Argument[]): number {
  return done(tryCall(name, ...args), name);
}

/**
 * Makes a call that may wait for a disk in another thread. A failed call is repeated in this thread, since
 * the reason is in the other thread's errno. So a failed call must have had no effect. Throws {@linkcode
 * SystemError}.
 */
export async function callElsewhere(name: SystemCall, ...args: Argument[]): Promise<number> {
  const result = await callOnce(name, ...args);
  return result >= 0 ? result : callHere(name, ...args);
}

/** Makes a call in another thread; negative where the call fails, without the reason. */
export async function callOnce(name: SystemCall, ...args: Argument[]): Promise<number> {
  held.add(args);
  try {
    const [a, b, c, d, e, f] = six(args);
    return await libcCalls().system_call_elsewhere(NUMBERS[name], a, b, c, d, e, f);
  } finally {
    held.delete(args);
  }
}

/** Waits until written data is on disk. The kernel reports a failure only once, and without the reason. */
export async function syncFd(fd: number, dataOnly: boolean): Promise<void> {
  const result = await callOnce(dataOnly ? "fdatasync" : "fsync", fd);
  if (result < 0) throw new SystemError(EIO, "fsync");
}
