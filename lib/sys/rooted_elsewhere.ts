/**
 * {@linkcode findRooted} and {@linkcode readRooted} for the root of a running workload. A file system mounted
 * there may be served by anybody, even by this process: it is read in another thread, with a time limit.
 */
import { SvcError } from "../base/errors.ts";
import { close, open } from "./fd.ts";
import { type FileStat, O } from "./files.ts";
import { callOnce, cbytes } from "./system_call.ts";
import {
  findRooted,
  isOtherMount,
  openHow,
  READING,
  readRooted,
  requireRegular,
  RESOLVE,
  tooLarge,
} from "./rooted_file.ts";

const AT_EMPTY_PATH = 0x1000;
const STATX_BASIC_STATS = 0x7ff;

/** How long a file system may take to answer, in milliseconds. */
const PATIENCE_MS = 10_000;
/** Most calls that have not returned: each holds one of the threads that the whole process shares. */
const MAX_WAITING = 16;
let waiting = 0;

const closeElsewhere = (fd: number) => callOnce("close", fd);

type Stat = Pick<FileStat, "mode" | "size">;

/** Finds `path` and calls `use` with its descriptor; undefined where nothing is there. */
async function within<T>(
  root: string,
  path: string,
  use: (fd: number, stat: Stat) => Promise<T>,
): Promise<T | undefined> {
  const folder = open(root, O.PATH | O.DIRECTORY);
  const opened: number[] = [folder];
  try {
    const how = openHow(O.PATH, RESOLVE.IN_ROOT | RESOLVE.NO_MAGICLINKS);
    const fd = await callOnce("openat2", folder, cbytes(path), how, how.length);
    if (fd < 0) return undefined;
    opened.push(fd);
    // struct statx: linux/stat.h.
    const stat = new Uint8Array(new ArrayBuffer(256));
    const got = await callOnce("statx", fd, cbytes(""), AT_EMPTY_PATH, STATX_BASIC_STATS, stat);
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
    const fd = await callOnce("openat", -1, cbytes(`/proc/self/fd/${found}`), READING);
    const failed = () => new SvcError("unavailable", `Cannot read ${path}: it cannot be opened`);
    if (fd < 0) throw failed();
    try {
      const bytes = new Uint8Array(new ArrayBuffer(stat.size + 1));
      let size = 0;
      while (true) {
        const rest = bytes.subarray(size);
        const got = rest.length === 0 ? 0 : await callOnce("read", fd, rest, rest.length);
        if (got < 0) throw failed();
        size += got;
        if (size > maxBytes) throw tooLarge(path, maxBytes);
        if (got === 0) return bytes.subarray(0, size);
      }
    } finally {
      // Closing may call the file system too.
      closeElsewhere(fd);
    }
  });
}

/** Limits the wait for a call that may never return. */
async function bounded<T>(path: string, look: Promise<T>, patienceMs: number): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    timeout.reject(
      new SvcError(
        "timeout",
        `Cannot read ${path}: what is mounted there did not answer within ${patienceMs / 1000} s`,
        { help: "check what is mounted in the workload" },
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
      { help: "check what is mounted in the workloads" },
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
