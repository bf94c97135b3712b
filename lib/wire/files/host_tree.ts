/** What the nodes of one exported folder share, and the limit on the descriptors of all exports. */
import { close } from "../../sys/fd.ts";
import { callElsewhere, callHere, cbytes, tryCall } from "../../sys/system_call.ts";
import { O } from "../../sys/files.ts";
import type { Guards } from "../blocks/guards.ts";
import { GivenNumbers } from "./given.ts";
import { HostLocks } from "./host_locks.ts";
import { ERRNO, FileError } from "./stat.ts";

/** Share of this process's descriptors for files of exports; the rest is for everything else. */
const SHARE = 3 / 4;
/** The limit where it cannot be read. */
const USUAL_LIMIT = 1024;

const NOFILE = 7;

/** Raises this process's limit on descriptors to what it may be: a mount has one for each file that is in use. */
function raise(): void {
  const limits = new BigUint64Array(2);
  const bytes = new Uint8Array(limits.buffer);
  if (tryCall("prlimit64", 0, NOFILE, 0, bytes) < 0) return;
  limits[0] = limits[1];
  tryCall("prlimit64", 0, NOFILE, bytes, 0);
}

let most: number | undefined;
let held = 0;

function limit(): number {
  try {
    raise();
    const line = /^Max open files\s+(\d+|unlimited)/m.exec(
      Deno.readTextFileSync("/proc/self/limits"),
    );
    return line && line[1] !== "unlimited" ? Number(line[1]) : Infinity;
  } catch {
    return USUAL_LIMIT;
  }
}

/** Descriptors that files of all exports may hold together, by the process's own limit. */
const mostDescriptors = (): number => most ??= Math.floor(limit() * SHARE);

const CLOEXEC = O.CLOEXEC;
const NAME = { uid: 0, gid: 0 } as const;

export interface HostOptions {
  /** Whether a path (relative, "" the root) is shown at all; default: all paths are. For read-only exports. */
  visible?: (path: string, directory: boolean) => boolean;
  /** Default false: writing calls fail with EROFS. */
  writable?: boolean;
  /** The owner that all files are shown with; default root. Clients cannot change it. */
  owner?: { uid: number; gid: number };
  /** Clients keep blocks of the files: tells which changes are theirs. */
  guards?: Guards;
}

export class HostTree {
  readonly locks = new HostLocks(this);
  readonly given = new GivenNumbers();
  readonly writable: boolean;
  readonly owner: { uid: number; gid: number };
  #devices: number[] = [];

  constructor(readonly options: HostOptions) {
    this.writable = options.writable ?? false;
    this.owner = options.owner ?? NAME;
  }

  /** How numbers of files are made; it goes with them to another process. */
  get devices(): readonly number[] {
    return this.#devices;
  }

  set devices(devices: readonly number[]) {
    this.#devices = [...devices];
  }

  /** The number of a file on any file system below the root. The root must be asked for first. */
  idOf(dev: number, ino: bigint): bigint {
    return this.given.of(this.#real(dev, ino));
  }

  /** A client gives a number to a file that it has just made. */
  give(dev: number, ino: bigint, number: bigint): void {
    this.given.give(this.#real(dev, ino), number);
  }

  #real(dev: number, ino: bigint): bigint {
    let index = this.#devices.indexOf(dev);
    if (index < 0) index = this.#devices.push(dev) - 1;
    return BigInt.asUintN(64, ino ^ BigInt(index) << 52n);
  }

  shows(path: string, directory: boolean): boolean {
    return this.options.visible?.(path, directory) ?? true;
  }

  /** Counts a descriptor before it is opened. Throws EMFILE. */
  reserve(): void {
    if (held >= mostDescriptors()) throw new FileError(ERRNO.EMFILE, "too many open files");
    held++;
  }

  /** openat(2) in another thread. Closed by {@linkcode HostTree.close}. */
  async open(folder: number, name: string, flags: number, mode = 0): Promise<number> {
    this.reserve();
    try {
      return await callElsewhere("openat", folder, cbytes(name), flags | CLOEXEC, mode);
    } catch (error) {
      held--;
      throw error;
    }
  }

  /** openat(2) in this thread, for files that are open already: that takes no time. */
  openHere(folder: number, name: string, flags: number): number {
    this.reserve();
    try {
      return callHere("openat", folder, cbytes(name), flags | CLOEXEC, 0);
    } catch (error) {
      held--;
      throw error;
    }
  }

  /** Takes back a {@linkcode HostTree.reserve} whose descriptor was not opened. */
  release(): void {
    held--;
  }

  close(fd: number): void {
    held--;
    close(fd);
  }
}
