/**
 * {@linkcode findRooted} and {@linkcode readRooted} for the root of a running workload. What is mounted there
 * may be a file system that somebody else serves, this process even: it is asked in another thread, and not
 * waited for without end.
 */
import { SvcError } from "../base/errors.ts";
import { close, open } from "./fd.ts";
import { type FileStat, O } from "./files.ts";
import { address, libc } from "./libc.ts";
import {
  findRooted,
  isOtherMount,
  openHow,
  READING,
  readRooted,
  requireRegular,
  RESOLVE,
  SYS_openat2,
  tooLarge,
} from "./rooted_file.ts";

/** asm-generic/unistd.h, and those of x86_64. */
const SYS = Deno.build.arch === "aarch64"
  ? { openat: 56n, close: 57n, read: 63n, statx: 291n }
  : { openat: 257n, close: 3n, read: 0n, statx: 332n };

const AT_EMPTY_PATH = 0x1000n;
const STATX_BASIC_STATS = 0x7ffn;

/** How long a file system may take to answer, in milliseconds. */
const PATIENCE_MS = 10_000;
/** Looks that have not come back, at most: each holds a thread of those that the whole process shares. */
const MAX_WAITING = 16;
let waiting = 0;

type Bytes = Uint8Array<ArrayBuffer>;

/** Memory that calls in other threads use: neither moved nor collected while these last. */
const held = new Set<Bytes>();

const nul = (text: string): Bytes => {
  const bytes = new TextEncoder().encode(`${text}\0`);
  const own = new Uint8Array(new ArrayBuffer(bytes.length));
  own.set(bytes);
  return own;
};

/** Makes one call in another thread; its error is not known. */
async function call(n: bigint, ...args: (bigint | Bytes)[]): Promise<number> {
  const used = args.filter((arg): arg is Bytes => typeof arg !== "bigint");
  for (const bytes of used) held.add(bytes);
  try {
    const [a, b = 0n, c = 0n, d = 0n, e = 0n] = args.map((arg) =>
      typeof arg === "bigint" ? arg : address(arg)
    );
    return Number(await libc().syscall_elsewhere(n, a, b, c, d, e));
  } finally {
    for (const bytes of used) held.delete(bytes);
  }
}

const closeElsewhere = (fd: number) => call(SYS.close, BigInt(fd));

type Stat = Pick<FileStat, "mode" | "size">;

/** Finds `path`, and has `use` look at it; undefined where there is nothing. */
async function within<T>(
  root: string,
  path: string,
  use: (fd: number, stat: Stat) => Promise<T>,
): Promise<T | undefined> {
  const folder = open(root, O.PATH | O.DIRECTORY);
  const opened: number[] = [folder];
  try {
    const how = openHow(O.PATH, RESOLVE.IN_ROOT | RESOLVE.NO_MAGICLINKS);
    const fd = await call(SYS_openat2, BigInt(folder), nul(path), how, BigInt(how.length));
    if (fd < 0) return undefined;
    opened.push(fd);
    // struct statx: linux/stat.h.
    const stat = new Uint8Array(new ArrayBuffer(256));
    const got = await call(
      SYS.statx,
      BigInt(fd),
      nul(""),
      AT_EMPTY_PATH,
      STATX_BASIC_STATS,
      stat,
    );
    if (got < 0) return undefined;
    const view = new DataView(stat.buffer);
    return await use(fd, {
      mode: view.getUint16(28, true),
      size: Number(view.getBigUint64(40, true)),
    });
  } finally {
    for (const fd of opened) close(fd);
  }
}

async function readWithin(root: string, path: string, maxBytes: number) {
  return await within(root, path, async (found, stat) => {
    requireRegular(stat, path, maxBytes);
    const fd = await call(
      SYS.openat,
      -1n,
      nul(`/proc/self/fd/${found}`),
      BigInt(READING),
    );
    const failed = () => new SvcError("unavailable", `Cannot read ${path}: it cannot be opened`);
    if (fd < 0) throw failed();
    try {
      const bytes = new Uint8Array(new ArrayBuffer(stat.size + 1));
      let size = 0;
      while (true) {
        const rest = bytes.subarray(size);
        const got = rest.length === 0
          ? 0
          : await call(SYS.read, BigInt(fd), rest, BigInt(rest.length));
        if (got < 0) throw failed();
        size += got;
        if (size > maxBytes) throw tooLarge(path, maxBytes);
        if (got === 0) return bytes.subarray(0, size);
      }
    } finally {
      // A file system may be asked at the end, too.
      closeElsewhere(fd);
    }
  });
}

/** Waits for a look that may never come back. */
async function bounded<T>(path: string, look: Promise<T>, patienceMs: number): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    timeout.reject(
      new SvcError(
        "timeout",
        `Cannot read ${path}: what is mounted there did not answer within ${patienceMs / 1000} s`,
        { help: "see to what is mounted in the workload" },
      ),
    );
  }, patienceMs);
  try {
    return await Promise.race([look, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function elsewhere<T>(
  path: string,
  look: () => Promise<T>,
  patienceMs: number,
): Promise<T> {
  if (waiting >= MAX_WAITING) {
    throw new SvcError(
      "unavailable",
      `Cannot read ${path}: ${waiting} mounts of workloads do not answer`,
      { help: "see to what is mounted in the workloads" },
    );
  }
  waiting++;
  const looking = look();
  const done = () => {
    waiting--;
  };
  looking.then(done, done);
  return await bounded(path, looking, patienceMs);
}

/** {@linkcode readRooted}; throws `timeout` where a mount does not answer. */
export async function readRunning(
  root: string,
  path: string,
  maxBytes: number,
  patienceMs = PATIENCE_MS,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    return readRooted(root, path, maxBytes, { crossMounts: false });
  } catch (error) {
    if (!isOtherMount(error)) throw error;
  }
  return await elsewhere(path, () => readWithin(root, path, maxBytes), patienceMs);
}

/** Type and permissions of what `path` leads to in a running workload; undefined where there is nothing. */
export async function modeInRunning(
  root: string,
  path: string,
  patienceMs = PATIENCE_MS,
): Promise<number | undefined> {
  try {
    using found = findRooted(root, path, { crossMounts: false });
    return found?.stat.mode;
  } catch (error) {
    if (!isOtherMount(error)) throw error;
  }
  return await elsewhere(
    path,
    () => within(root, path, (_, { mode }) => Promise.resolve(mode)),
    patienceMs,
  );
}
