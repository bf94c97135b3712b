/**
 * Wakes programs of a workload that wait for changes: each change of the caller's is done once more through the mount
 * (fuse/replays.ts). The calls start at a descriptor of the mount's tree, follow no link and cross into no other file
 * system: whatever the workload puts into their way, they reach nothing else.
 */
import { O } from "../../sys/files.ts";
import { type Argument, callOnce, cbytes, type SystemCall } from "../../sys/system_call.ts";
import { TYPE_BITS } from "../files/node.ts";
import type { NodeKind } from "../files/stat.ts";
import type { MountedFuse } from "../fuse/mount.ts";
import type { Replay } from "../fuse/replays.ts";
import type { Change, Heard, KnownTree } from "./tree.ts";

/** RESOLVE_NO_XDEV, RESOLVE_NO_SYMLINKS and RESOLVE_BENEATH of openat2(2). */
const RESOLVE = 0x01n | 0x04n | 0x08n;
const HOW = new Uint8Array(
  new BigUint64Array([BigInt(O.PATH | O.DIRECTORY | O.CLOEXEC), 0n, RESOLVE]).buffer,
);
const AT_REMOVEDIR = 0x200;
const AT_SYMLINK_NOFOLLOW = 0x100;
const UTIME_NOW = 0x3fffffffn;
const UTIME_OMIT = 0x3ffffffen;
const O_WRONLY = 1;
/** Changes that wait; nobody is woken for those that are more. */
const MOST = 4000;

const times = (atime: bigint, mtime: bigint) =>
  new Uint8Array(new BigInt64Array([0n, atime, 0n, mtime]).buffer);

/**
 * A call in another thread, never in this one: it answers the call. Throws where it fails, without the reason.
 */
async function called(name: SystemCall, ...args: Argument[]): Promise<number> {
  const result = await callOnce(name, ...args);
  if (result < 0) throw new Error(`${name} failed`);
  return result;
}

interface Waked extends Replay {
  /** Not its content: its attributes. */
  only?: boolean;
}

export class Waking implements Heard {
  readonly #queue: Waked[] = [];
  #running = Promise.resolve();
  #runs = false;
  #touching: { id: bigint; done: Promise<void> } | undefined;

  /** `at`: where what is exported is in the mount. */
  constructor(readonly tree: KnownTree, readonly mounted: MountedFuse, readonly at: string) {}

  /** The kernel forgets first: what it is asked then is true. */
  async changed({ folder, name, before, after, what }: Change): Promise<void> {
    if (what === "entry" || what === "unknown") {
      await this.mounted.forget({ folder, name, id: before?.id });
    } else await this.mounted.forget({ id: after?.id });
    if (what === "unknown") return;
    const at = { folder, name };
    const [gone, here] = [before, after].map((one) => one && { id: one.id, kind: one.kind });
    if (what === "entry" && gone) this.#add({ ...at, what: "remove", ...gone });
    if (what === "entry" && here) this.#add({ ...at, what: "make", ...here });
    if (here) this.#add({ ...at, what: "touch", ...here, only: what === "attributes" });
  }

  /** Resolves when all that was heard so far was done once more. */
  get idle(): Promise<void> {
    return this.#running;
  }

  /** Waits for calls that are being done once more, whose answers may have older attributes. */
  async file(id: bigint): Promise<void> {
    if (this.#touching?.id === id) await this.#touching.done;
    await this.mounted.forget({ id });
  }

  #add(waking: Omit<Waked, "lives">): void {
    if (this.#queue.length >= MOST || waking.kind === "special") return;
    this.#queue.push({ ...waking, lives: () => this.tree.lives(waking.id) });
    if (!this.#runs) this.#running = this.#run();
  }

  async #run(): Promise<void> {
    this.#runs = true;
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      // Gone again, or something else by now: news of that are on their way.
      const { id } = next;
      const done = this.#replay(next).catch(() => {});
      // The answers have attributes, which may be older than what came meanwhile.
      this.#touching = { id, done: done.then(() => this.mounted.forget({ id })) };
      await this.#touching.done;
    }
    this.#runs = false;
  }

  async #replay(replay: Waked): Promise<void> {
    const path = this.tree.path(replay.folder);
    if (path === undefined) return;
    // Not kept open: it would keep the mount.
    const root = await called("openat", -1, cbytes(this.at), O.PATH | O.DIRECTORY | O.CLOEXEC, 0);
    try {
      const folder = await called("openat2", root, cbytes(path || "."), HOW, HOW.length);
      try {
        await this.mounted.replay(replay, () => call(folder, replay));
      } finally {
        await called("close", folder);
      }
    } finally {
      await called("close", root);
    }
  }
}

async function call(
  folder: number,
  { name, what, kind, only }: Waked,
): Promise<void> {
  const at = cbytes(name);
  if (what === "remove") {
    await called("unlinkat", folder, at, kind === "directory" ? AT_REMOVEDIR : 0);
  } else if (what === "make") await make(folder, at, kind);
  else if (only || kind !== "file") {
    await called("utimensat", folder, at, times(UTIME_NOW, UTIME_NOW), AT_SYMLINK_NOFOLLOW);
  } else {
    // The time of writing alone is what wakes those who wait for a change of the content.
    await called("utimensat", folder, at, times(UTIME_OMIT, UTIME_NOW), AT_SYMLINK_NOFOLLOW);
    const flags = O_WRONLY | O.NOFOLLOW | O.NONBLOCK | O.CLOEXEC;
    await called("close", await called("openat", folder, at, flags, 0));
  }
}

async function make(folder: number, at: Uint8Array<ArrayBuffer>, kind: NodeKind): Promise<void> {
  if (kind === "directory") await called("mkdirat", folder, at, 0o700);
  else if (kind === "symlink") await called("symlinkat", cbytes("."), folder, at);
  else await called("mknodat", folder, at, TYPE_BITS.file | 0o600, 0);
}
