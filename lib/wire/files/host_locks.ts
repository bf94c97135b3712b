/**
 * Byte-range locks that other processes of this machine see too. The kernel has locks of a process and locks of
 * an open file. A client's process is neither, so it gets an open file of its own for each file that it locks.
 */
import { procPath } from "../../sys/fd.ts";
import { callHere, tryCall } from "../../sys/system_call.ts";
import { O } from "../../sys/files.ts";
import { type FileLock } from "./node.ts";
import { ERRNO, FileError } from "./stat.ts";

/** Commands of fcntl(2) for locks of an open file. */
const F_OFD_GETLK = 36;
const F_OFD_SETLK = 37;
const TYPES = ["read", "write", "none"] as const;
const MOST = 1n << 63n;

/** struct flock. */
function rangeOf({ type, start, length }: FileLock): Uint8Array<ArrayBuffer> {
  if (start + length >= MOST || start >= MOST) throw new FileError(ERRNO.EINVAL, "range");
  const bytes = new Uint8Array(new ArrayBuffer(32));
  const view = new DataView(bytes.buffer);
  view.setInt16(0, TYPES.indexOf(type), true);
  view.setBigInt64(8, start, true);
  view.setBigInt64(16, length, true);
  return bytes;
}

/** Operations of flock(2) that do not wait. */
const FLOCK = { read: 1 | 4, write: 2 | 4, none: 8 } as const;

/** flock(2) of an open file of this machine, so that its other processes heed it. False where another one has it. */
export function flock(fd: number, type: FileLock["type"]): boolean {
  const result = tryCall("flock", fd, FLOCK[type]);
  if (result < 0 && -result !== ERRNO.EAGAIN) throw new FileError(-result, "flock");
  return result >= 0;
}

interface Held {
  fd: Promise<number>;
  /** The client's open files that use this lock. */
  users: Set<object>;
}

/** Opens the files that locks are held on. */
interface Opener {
  open(at: number, path: string, flags: number): Promise<number>;
  close(fd: number): void;
}

export class HostLocks {
  readonly #opener: Opener;
  /** Keyed by file and owner. */
  #held = new Map<string, Held>();

  constructor(opener: Opener) {
    this.#opener = opener;
  }

  /**
   * Sets a lock. `file` is the client's open file, `fd` its descriptor. False where another owner holds a lock.
   */
  async set(file: object, fd: number, id: bigint, lock: FileLock): Promise<boolean> {
    const range = rangeOf(lock);
    const key = `${id} ${lock.owner}`;
    if (lock.type === "none" && lock.start === 0n && lock.length === 0n) {
      this.#drop(key);
      return true;
    }
    while (true) {
      const held = this.#of(key, fd);
      held.users.add(file);
      const own = await held.fd;
      // The lock was released while its file was being opened.
      if (this.#held.get(key) !== held) continue;
      const result = tryCall("fcntl", own, F_OFD_SETLK, range);
      if (result >= 0) return true;
      if (-result === ERRNO.EAGAIN || -result === ERRNO.EACCES) return false;
      throw new FileError(-result, "lock");
    }
  }

  /** The lock that conflicts with the wanted one. */
  async inTheWay(fd: number, id: bigint, lock: FileLock): Promise<FileLock | undefined> {
    const range = rangeOf(lock);
    const key = `${id} ${lock.owner}`;
    const held = this.#held.get(key);
    const own = await held?.fd;
    callHere(
      "fcntl",
      own !== undefined && this.#held.get(key) === held ? own : fd,
      F_OFD_GETLK,
      range,
    );
    const view = new DataView(range.buffer);
    const type = TYPES[view.getInt16(0, true)];
    if (type === "none") return undefined;
    const [start, length] = [view.getBigInt64(8, true), view.getBigInt64(16, true)];
    return { type, start, length, owner: "" };
  }

  /** All locks: the descriptor of each, and the open files that use it. */
  async pass(): Promise<{ key: string; fd: number; users: readonly object[] }[]> {
    const all = [...this.#held].map(async ([key, { fd, users }]) => ({
      ...{ key, fd: await fd, users: [...users] },
    }));
    return await Promise.all(all);
  }

  /** Takes over a lock of another process. */
  adopt(key: string, fd: number, users: readonly object[]): void {
    this.#held.set(key, { fd: Promise.resolve(fd), users: new Set(users) });
  }

  /** Releases the locks that only this open file used. */
  leave(file: object): void {
    for (const [key, { users }] of this.#held) {
      if (users.delete(file) && users.size === 0) this.#drop(key);
    }
  }

  #drop(key: string): void {
    const held = this.#held.get(key);
    this.#held.delete(key);
    held?.fd.then((fd) => this.#opener.close(fd), () => {/* it was not opened */});
  }

  #of(key: string, fd: number): Held {
    const known = this.#held.get(key);
    if (known) return known;
    // A lock for writing needs a file that is open for writing.
    const opened = this.#opener.open(-1, procPath(fd), O.RDWR | O.NONBLOCK)
      .catch(() => this.#opener.open(-1, procPath(fd), O.RDONLY | O.NONBLOCK));
    const held = { fd: opened, users: new Set<object>() };
    this.#held.set(key, held);
    opened.catch(() => this.#held.delete(key));
    return held;
  }
}
