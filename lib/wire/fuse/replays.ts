/**
 * Changes that were made elsewhere, done once more through the mount, so that the kernel wakes whoever waits for them
 * (inotify, fanotify). FUSE has no message for that. The mount's own process makes the calls; they are answered here,
 * and never change anything: what it asks for beside them is refused.
 */
import { type FileNode, TYPE_BITS } from "../files/node.ts";
import type { KernelNodes } from "./nodes.ts";
import { attributesReply, entryReply, missingReply, OP, Reply, type Request } from "./protocol.ts";
import { ERRNO, FileError, type NodeKind } from "../files/stat.ts";

export interface Replay {
  folder: bigint;
  name: string;
  /** What the calls do to the entry. */
  what: "make" | "remove" | "touch";
  id: bigint;
  kind: NodeKind;
  /** Whether a file has the number now, by this name or another, or since the one that had it is gone. */
  lives(): boolean;
}

const NEVER = { entry: 0, attributes: 0 };
const EPOCH = { s: 0, ns: 0 };
/** A number of no node: what has the number of a file that lives must not be told of another. */
const NOBODY = 2n ** 64n - 1n;
/** Calls that change something. */
const CHANGING: ReadonlySet<number> = new Set([
  ...[OP.SETATTR, OP.SYMLINK, OP.MKNOD, OP.MKDIR, OP.UNLINK, OP.RMDIR, OP.RENAME, OP.LINK],
  ...[OP.OPEN, OP.CREATE, OP.SETXATTR, OP.REMOVEXATTR, OP.WRITE],
]);
const MAKING: ReadonlySet<number> = new Set([OP.MKNOD, OP.MKDIR, OP.SYMLINK]);
/** Offsets of the name in the messages. */
const NAME_AT: Record<number, number> = { [OP.MKNOD]: 16, [OP.MKDIR]: 8 };

/** Whether a thread is one of this process's. */
function isOwn(thread: number): boolean {
  try {
    return Deno.statSync(`/proc/self/task/${thread}`).isDirectory;
  } catch {
    return false;
  }
}

export class Replays {
  #now: Replay | undefined;

  constructor(readonly nodes: KernelNodes) {}

  /** Runs calls of this process by which the change is done once more. One at a time. */
  async run(replay: Replay, calls: () => Promise<void>): Promise<void> {
    this.#now = replay;
    try {
      await calls();
    } finally {
      this.#now = undefined;
    }
  }

  /** The answer to a request of such calls; undefined for one of anybody else, and for one that changes nothing. */
  answer(request: Request): Promise<Reply> | undefined {
    const now = this.#now;
    if (!now || !(CHANGING.has(request.op) || request.op === OP.LOOKUP)) return;
    if (!isOwn(request.thread)) return;
    if (request.op !== OP.LOOKUP) return this.#changing(now, request);
    if (!this.#isIt(now, request) || now.what === "touch") return;
    return Promise.resolve(now.what === "make" ? missingReply(0) : this.#gone(now));
  }

  /** As what is gone is looked up once more. */
  #gone({ id, kind, lives }: Replay): Reply {
    const number = lives() ? NOBODY : this.nodes.number(id);
    this.nodes.again(number);
    const stat = { mode: TYPE_BITS[typeOf(kind)] | 0o600, uid: 0, gid: 0, nlink: 1, size: 0 };
    const times = { atime: EPOCH, mtime: EPOCH, ctime: EPOCH };
    return entryReply(number, id, { ...stat, blocks: 0, ...times }, NEVER);
  }

  #isIt({ folder, name }: Replay, request: Request): boolean {
    return request.node === this.nodes.number(folder) &&
      request.names(NAME_AT[request.op] ?? 0, 1)[0] === name;
  }

  async #changing(now: Replay, request: Request): Promise<Reply> {
    const refused = new FileError(ERRNO.EPERM, "it is not this change");
    const node: FileNode = this.nodes.get(request.node);
    if (now.what === "touch") {
      if (node.id !== now.id) throw refused;
      if (request.op === OP.OPEN) return new Reply(16);
      if (request.op !== OP.SETATTR) throw refused;
      return attributesReply(node.id, await node.stat(), 0);
    }
    if (!this.#isIt(now, request)) throw refused;
    if (now.what === "remove" && (request.op === OP.UNLINK || request.op === OP.RMDIR)) {
      return new Reply(0);
    }
    if (now.what === "make" && MAKING.has(request.op)) {
      return await this.nodes.entry(node, now.name, await node.walk(now.name));
    }
    throw refused;
  }
}

const typeOf = (kind: NodeKind) => kind === "special" ? "fifo" : kind;
