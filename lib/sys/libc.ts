/**
 * The C library through Deno's FFI, opened on first use: importing this module has no effect, and on a
 * system without libc.so.6 the first call throws `unsupported`.
 *
 * Calls are synchronous, a few microseconds each. Long work belongs in a Worker.
 */
import { SvcError } from "../base/errors.ts";
import { encodeRaw } from "../base/raw_string.ts";
import { SystemError } from "./errno.ts";

/** Byte counts are returned as i32: all are far below 2 GiB, and returning a bigint may change errno. */
const SYMBOLS = {
  mount: { parameters: ["buffer", "buffer", "buffer", "u64", "buffer"], result: "i32" },
  umount2: { parameters: ["buffer", "i32"], result: "i32" },
  mount_elsewhere: {
    name: "mount",
    parameters: ["buffer", "buffer", "buffer", "u64", "buffer"],
    result: "i32",
    nonblocking: true,
  },
  umount2_elsewhere: {
    name: "umount2",
    parameters: ["buffer", "i32"],
    result: "i32",
    nonblocking: true,
  },
  openat: { parameters: ["i32", "buffer", "i32", "u32"], result: "i32" },
  write: { parameters: ["i32", "buffer", "usize"], result: "i32" },
  ftruncate: { parameters: ["i32", "i64"], result: "i32" },
  flock: { parameters: ["i32", "i32"], result: "i32" },
  execve: { parameters: ["buffer", "buffer", "buffer"], result: "i32" },
  ioctl: { parameters: ["i32", "u64", "i64"], result: "i32" },
  mkdir: { parameters: ["buffer", "u32"], result: "i32" },
  rmdir: { parameters: ["buffer"], result: "i32" },
  unlink: { parameters: ["buffer"], result: "i32" },
  link: { parameters: ["buffer", "buffer"], result: "i32" },
  symlink: { parameters: ["buffer", "buffer"], result: "i32" },
  readlink: { parameters: ["buffer", "buffer", "usize"], result: "i32" },
  rename: { parameters: ["buffer", "buffer"], result: "i32" },
  mknod: { parameters: ["buffer", "u32", "u64"], result: "i32" },
  chmod: { parameters: ["buffer", "u32"], result: "i32" },
  fchmod: { parameters: ["i32", "u32"], result: "i32" },
  lchown: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  fchown: { parameters: ["i32", "u32", "u32"], result: "i32" },
  utimensat: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
  futimens: { parameters: ["i32", "buffer"], result: "i32" },
  lsetxattr: { parameters: ["buffer", "buffer", "buffer", "usize", "i32"], result: "i32" },
  lgetxattr: { parameters: ["buffer", "buffer", "buffer", "usize"], result: "i32" },
  flistxattr: { parameters: ["i32", "buffer", "usize"], result: "i32" },
  llistxattr: { parameters: ["buffer", "buffer", "usize"], result: "i32" },
  syncfs: { parameters: ["i32"], result: "i32", nonblocking: true },
  sync_file_range: {
    parameters: ["i32", "i64", "i64", "u32"],
    result: "i32",
    nonblocking: true,
  },
  write_elsewhere: {
    name: "write",
    parameters: ["i32", "pointer", "usize"],
    result: "i32",
    nonblocking: true,
  },
  epoll_create1: { parameters: ["i32"], result: "i32" },
  epoll_ctl: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
  epoll_wait: { parameters: ["i32", "pointer", "i32", "i32"], result: "i32", nonblocking: true },
  malloc: { parameters: ["usize"], result: "pointer" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  shutdown: { parameters: ["i32", "i32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  listen: { parameters: ["i32", "i32"], result: "i32" },
  accept4: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  recvfrom: {
    parameters: ["i32", "buffer", "usize", "i32", "buffer", "buffer"],
    result: "i32",
  },
  sendto: { parameters: ["i32", "buffer", "usize", "i32", "buffer", "u32"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  dup: { parameters: ["i32"], result: "i32" },
  setns: { parameters: ["i32", "i32"], result: "i32" },
  sendfile: {
    parameters: ["i32", "i32", "pointer", "usize"],
    result: "i32",
    nonblocking: true,
  },
  sys_statx: {
    name: "statx",
    parameters: ["i32", "buffer", "i32", "u32", "buffer"],
    result: "i32",
  },
  sys_getdents64: {
    name: "getdents64",
    parameters: ["i32", "buffer", "usize"],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;

/** Functions with which a client reads files; kept few, since each costs part of a millisecond at start. */
const READING = {
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize"], result: "i32" },
  lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
  __errno_location: { parameters: [], result: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Functions with which a client lists many files. */
const LISTING = {
  sys_statx: SYMBOLS.sys_statx,
  sys_getdents64: SYMBOLS.sys_getdents64,
} as const;

/** Other C libraries do not have it. */
const TRIMMING = {
  malloc_trim: { parameters: ["usize"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** System calls by number (system_call.ts). */
const CALL = {
  name: "syscall",
  parameters: ["i64", "i64", "i64", "i64", "i64", "i64", "i64"],
  result: "i32",
} as const;
const CALLS = {
  system_call: CALL,
  system_call_elsewhere: { ...CALL, nonblocking: true },
} as const satisfies Deno.ForeignLibraryInterface;

type Libc = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
type Calls = Deno.DynamicLibrary<typeof CALLS>["symbols"];
type Reading = Deno.DynamicLibrary<typeof READING>["symbols"];
type Listing = Pick<Libc, keyof typeof LISTING>;
let symbols: Libc | undefined;
let reading: Reading | undefined;
let listing: Listing | undefined;
let calls: Calls | undefined;

/** All functions. Throws `unsupported` where glibc cannot be loaded. */
export function libc(): Libc {
  if (symbols) return symbols;
  libcReading();
  return symbols = load(SYMBOLS);
}

/** The functions that open, read and close. */
export function libcReading(): Reading {
  if (reading) return reading;
  const found = load(READING);
  errno = new Int32Array(Deno.UnsafePointerView.getArrayBuffer(found.__errno_location()!, 4));
  return reading = found;
}

/** The functions that list folders. */
export function libcListing(): Listing {
  return listing ??= load(LISTING);
}

/** The function that gives freed memory back. */
export function libcTrimming(): Deno.DynamicLibrary<typeof TRIMMING>["symbols"] {
  return load(TRIMMING);
}

/** Any system call by its number; for calls whose result fits in 32 bits. */
export function libcCalls(): Calls {
  if (calls) return calls;
  libcReading();
  return calls = load(CALLS);
}

function load<S extends Deno.ForeignLibraryInterface>(table: S): Deno.DynamicLibrary<S>["symbols"] {
  if (Deno.build.os !== "linux") {
    throw new SvcError(
      "unsupported",
      `Cannot make Linux system calls: this machine runs ${Deno.build.os}`,
      { help: "run the server on Linux" },
    );
  }
  try {
    return Deno.dlopen("libc.so.6", table).symbols;
  } catch (error) {
    throw new SvcError("unsupported", "Cannot make Linux system calls: libc.so.6 does not load", {
      cause: error,
      help: "use a distribution with glibc 2.30 or later",
    });
  }
}

/**
 * `errno` of this thread, in place. Read `errno[0]` in the same expression as the call or right after it:
 * any other call in between, even a function's entry, lets the engine run (collect garbage, wait for a
 * lock) and change it.
 */
export let errno = new Int32Array(1);

/** Returns a result unchanged; throws {@linkcode SystemError} with the given errno for a negative one. */
export function check(
  result: number | bigint,
  errno: number,
  syscall: string,
  path?: string,
): number {
  if (result < 0) throw new SystemError(errno, syscall, path);
  return Number(result);
}

/**
 * True for errors from waiting for a lock, which file lookups never give: they come from the engine, not from
 * the call (see {@linkcode errno}). The caller repeats such a call.
 */
export const isForeignErrno = (code: number): boolean => code === 4 || code === 11 || code === 110;

const encoder = new TextEncoder();
// PATH_MAX is 4096. Four buffers, because no call takes more strings; a synchronous call needs them only
// until it returns.
const scratch = Array.from({ length: 4 }, () => new Uint8Array(3 * 4096 + 1));

/**
 * A string with its NUL in scratch memory: valid until the next call with the same `slot`. Throws EINVAL
 * where the text holds a NUL, ENAMETOOLONG past 4095 bytes.
 */
export function cstring(text: string, slot: 0 | 1 | 2 | 3 = 0): Uint8Array<ArrayBuffer> {
  const buffer = scratch[slot];
  if (text.includes("\0")) throw new SystemError(22, "path", JSON.stringify(text.slice(0, 80)));
  if (text.length > 4095) throw new SystemError(36, "path", `${text.slice(0, 80)}…`);
  let length: number;
  if (text.isWellFormed()) length = encoder.encodeInto(text, buffer).written;
  else {
    const raw = encodeRaw(text);
    buffer.set(raw);
    length = raw.length;
  }
  if (length > 4095) throw new SystemError(36, "path", `${text.slice(0, 80)}…`);
  buffer[length] = 0;
  return buffer;
}
