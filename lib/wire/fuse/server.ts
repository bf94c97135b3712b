/** A mount: answers the kernel's FUSE requests from a source of files, each as soon as it is done. */
import type { FuseChannel } from "../../sys/fuse.ts";
import { encodeRaw } from "../../base/raw_string.ts";
import {
  asFileError,
  type FileNode,
  Listing,
  MAX_NAME,
  type OpenFile,
  writerOf,
} from "../files/node.ts";
import {
  attributesReply,
  BUFFER,
  changesOf,
  ENTRY,
  FOPEN_KEEP_CACHE,
  forgetAttributes,
  forgetContent,
  forgetEntry,
  GETATTR_FH,
  initReply,
  listingRoom,
  missingReply,
  OP,
  putEntry,
  Reply,
  Request,
  sized,
} from "./protocol.ts";
import { FOREVER_MS, KernelNodes } from "./nodes.ts";
import { Replays } from "./replays.ts";
import { lockOf, lockReply, ownerOf, untilLocked } from "./locks.ts";
import { ERRNO, FileError, type Later, type NodeStat } from "../files/stat.ts";

export interface ServeFuseOptions {
  /** Milliseconds that the kernel may cache answers; absent: files never change. */
  keepMs?: number;
  /** Default false: the kernel itself refuses writing calls. */
  writable?: boolean;
  /** Changes are done once more by this process (replays.ts): then only the source refuses what writes. */
  wakes?: boolean;
  /** Open files take locks of flock(2) too; default: the kernel keeps these itself. */
  flocks?: boolean;
}

type Handler = (request: Request) => Promise<Reply>;
const done = () => new Reply(0);

/** What the kernel is to forget: a file's content and attributes, or an entry of a folder. Numbers are of nodes. */
export interface Forgotten {
  id?: bigint;
  folder?: bigint;
  name?: string;
}

export class FuseServer {
  #nodes: KernelNodes;
  readonly replays: Replays;
  #files = new Map<bigint, OpenFile>();
  #folders = new Map<bigint, Listing>();
  #handles = 0n;
  #underWay = new Set<Promise<void>>();
  /** Open files that were ever locked. */
  #locked = new WeakSet<OpenFile>();
  /** Waits for locks that the kernel may interrupt, by request. */
  #waits = new Map<bigint, AbortController>();
  #keepMs: number;
  #keepsCache: boolean;
  #locks: { locks: boolean; flocks: boolean };

  /** The caller closes the root. */
  constructor(
    readonly channel: FuseChannel,
    root: FileNode,
    { keepMs, writable = false, flocks = false }: ServeFuseOptions,
  ) {
    this.#keepMs = keepMs ?? FOREVER_MS;
    this.#nodes = new KernelNodes(root, this.#keepMs);
    this.replays = new Replays(this.#nodes);
    this.#keepsCache = keepMs === undefined;
    // In a read-only mount the kernel keeps locks itself: nobody's writers wait for who may only read.
    this.#locks = { locks: writable, flocks: writable && flocks };
  }

  /** Resolves when the mount has ended. */
  async serve(): Promise<void> {
    const buffer = new Uint8Array(new ArrayBuffer(BUFFER));
    try {
      for (let bytes = await this.channel.next(buffer); bytes;) {
        const request = new Request(bytes);
        if (request.op === OP.DESTROY) {
          this.channel.answer(done().finish(request.unique));
          break;
        }
        this.#take(request);
        bytes = await this.channel.next(buffer);
      }
    } finally {
      for (const wait of this.#waits.values()) wait.abort();
      await Promise.all(this.#underWay);
      await Promise.allSettled([
        ...Array.from(this.#files.values(), (file) => file.close()),
        ...Array.from(this.#folders.values(), ({ folder }) => folder.close()),
      ]);
      this.#nodes.closeAll();
      this.channel.close();
    }
  }

  #take(request: Request): void {
    switch (request.op) {
      case OP.FORGET:
        return this.#nodes.forget(request.node, request.u64(0));
      case OP.BATCH_FORGET:
        for (let n = 0; n < request.u32(0); n++) {
          this.#nodes.forget(request.u64(8 + n * 16), request.u64(16 + n * 16));
        }
        return;
      case OP.INTERRUPT:
        return this.#waits.get(request.u64(0))?.abort();
    }
    const work = this.#answer(request).then((bytes) => this.channel.answer(bytes));
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  async #answer(request: Request): Promise<Uint8Array<ArrayBuffer>> {
    try {
      const handler = this.#handlers[request.op];
      if (!handler) throw new FileError(ERRNO.ENOSYS);
      const answer = this.replays.answer(request) ?? handler(request);
      return (await answer).finish(request.unique);
    } catch (error) {
      return new Reply(0).finish(request.unique, asFileError(error).errno);
    }
  }

  #handlers: Record<number, Handler> = {
    [OP.INIT]: (request) => Promise.resolve(initReply(request, this.#locks)),
    [OP.LOOKUP]: async (request) => {
      const [folder, [name]] = [this.#node(request), request.names(0, 1)];
      try {
        return await this.#entry(request, name, folder.walk(name));
      } catch (error) {
        if (asFileError(error).errno !== ERRNO.ENOENT) throw error;
        // The kernel may also keep that there is no such entry.
        return missingReply(folder.knows?.(name, undefined) ? FOREVER_MS : this.#keepMs);
      }
    },
    [OP.GETATTR]: async (request) => {
      const node = this.#node(request);
      const file = request.u32(0) & GETATTR_FH ? this.#files.get(request.u64(8)) : undefined;
      return await this.#attributes(node, () => file?.stat?.() ?? node.stat());
    },
    [OP.SETATTR]: (request) => this.#setattr(request),
    [OP.READLINK]: async (request) => {
      const target = encodeRaw(await this.#node(request).readlink());
      const reply = new Reply(target.length);
      reply.body().set(target);
      return reply;
    },
    [OP.SYMLINK]: async (request) => {
      const [name, target] = request.names(0, 2);
      return await this.#entry(request, name, this.#writer(request).symlink(name, target));
    },
    [OP.MKNOD]: async (request) => {
      const [name] = request.names(16, 1);
      return await this.#entry(request, name, this.#writer(request).mknod(name, request.u32(0)));
    },
    [OP.MKDIR]: async (request) => {
      const [name] = request.names(8, 1);
      return await this.#entry(request, name, this.#writer(request).mkdir(name, request.u32(0)));
    },
    [OP.UNLINK]: (request) => this.#remove(request, "other"),
    [OP.RMDIR]: (request) => this.#remove(request, "folder"),
    [OP.RENAME]: async (request) => {
      const [name, newName] = request.names(8, 2);
      await this.#writer(request).rename(name, this.#nodes.get(request.u64(0)), newName);
      return done();
    },
    [OP.LINK]: async (request) => {
      const target = this.#nodes.get(request.u64(0));
      const [name] = request.names(8, 1);
      await this.#writer(request).link(name, target);
      return await this.#entry(request, name, this.#node(request).walk(name));
    },
    [OP.OPEN]: async (request) => {
      const file = await this.#node(request).open(request.u32(0));
      return this.#opened(new Reply(16), 0, file);
    },
    [OP.CREATE]: async (request) => {
      const [name] = request.names(16, 1);
      const writer = this.#writer(request);
      const { node, file } = await writer.create(name, request.u32(0), request.u32(4));
      try {
        return this.#opened(await this.#entry(request, name, node, 16), ENTRY, file);
      } catch (error) {
        await file.close();
        throw error;
      }
    },
    [OP.READ]: async (request) => {
      const reply = new Reply(request.u32(16));
      return reply.cut(await this.#file(request).read(request.i64(8), reply.body()));
    },
    [OP.WRITE]: async (request) => {
      const file = this.#file(request);
      if (!file.write) throw new FileError(ERRNO.EBADF);
      const bytes = request.bytes(40, request.u32(16));
      return new Reply(8).u32(0, await file.write(request.i64(8), bytes));
    },
    [OP.STATFS]: async (request) => {
      const space = await this.#node(request).space?.();
      const reply = new Reply(80).u32(40, space?.blockSize ?? 4096).u32(44, MAX_NAME);
      reply.u32(48, space?.blockSize ?? 4096);
      if (!space) return reply;
      reply.u64(0, space.blocks).u64(8, space.free).u64(16, space.available);
      return reply.u64(24, space.files).u64(32, space.filesFree);
    },
    [OP.FLUSH]: async (request) => {
      const file = this.#files.get(request.u64(0));
      await file?.flush?.();
      // POSIX: when a process closes any of its descriptors of a file, it loses its locks on that file.
      if (file && this.#locked.has(file)) {
        await file.lock?.({ type: "none", start: 0n, length: 0n, owner: ownerOf(request.u64(16)) });
      }
      return done();
    },
    [OP.RELEASE]: async (request) => {
      const handle = request.u64(0);
      const file = this.#files.get(handle);
      this.#files.delete(handle);
      await file?.close();
      return done();
    },
    [OP.FSYNC]: async (request) => {
      await this.#file(request).sync?.((request.u32(8) & 1) !== 0);
      return done();
    },
    [OP.OPENDIR]: async (request) => {
      const node = this.#node(request);
      const handle = ++this.#handles;
      this.#folders.set(handle, new Listing(await node.list(), node.id));
      return new Reply(16).u64(0, handle);
    },
    [OP.READDIR]: async (request) => {
      const room = listingRoom(request);
      const reply = new Reply(room);
      let at = 0;
      await this.#folder(request).take(request.u64(8), (entry) => {
        const size = putEntry(reply, at, room, entry);
        at += size;
        return size > 0;
      });
      return reply.cut(at);
    },
    [OP.RELEASEDIR]: async (request) => {
      const listing = this.#folder(request);
      this.#folders.delete(request.u64(0));
      await listing.folder.close();
      return done();
    },
    [OP.FSYNCDIR]: async (request) => {
      await this.#folder(request).folder.sync?.();
      return done();
    },
    [OP.SETXATTR]: async (request) => {
      const [name] = request.names(8, 1);
      const value = request.bytes(request.afterName(8), request.u32(0));
      await this.#writer(request).setXattr(name, value, request.u32(4));
      return done();
    },
    [OP.GETXATTR]: async (request) => {
      const node = this.#node(request);
      if (!node.getXattr) throw new FileError(ERRNO.EOPNOTSUPP);
      return sized(await node.getXattr(request.names(8, 1)[0]), request.u32(0));
    },
    [OP.LISTXATTR]: async (request) => {
      const names = await this.#node(request).listXattrs?.() ?? [];
      return sized(encodeRaw(names.map((name) => `${name}\0`).join("")), request.u32(0));
    },
    [OP.REMOVEXATTR]: async (request) => {
      await this.#writer(request).removeXattr(request.names(0, 1)[0]);
      return done();
    },
    [OP.GETLK]: async (request) => {
      const lock = lockOf(request);
      return lockReply(lock, await this.#file(request).lockInTheWay?.(lock));
    },
    [OP.SETLK]: async (request) => {
      if (await this.#lock(request)) return done();
      throw new FileError(ERRNO.EAGAIN);
    },
    [OP.SETLKW]: (request) => this.#lockInTurn(request),
  };

  #node(request: Request): FileNode {
    return this.#nodes.get(request.node);
  }

  #writer(request: Request) {
    return writerOf(this.#node(request));
  }

  async #remove(request: Request, kind: "folder" | "other"): Promise<Reply> {
    await this.#writer(request).remove(request.names(0, 1)[0], kind);
    return done();
  }

  #file(request: Request): OpenFile {
    const file = this.#files.get(request.u64(0));
    if (!file) throw new FileError(ERRNO.EBADF);
    return file;
  }

  #folder(request: Request): Listing {
    const folder = this.#folders.get(request.u64(0));
    if (!folder) throw new FileError(ERRNO.EBADF);
    return folder;
  }

  /** Returns an entry of the request's folder to the kernel. */
  async #entry(request: Request, name: string, node: Later<FileNode>, more = 0): Promise<Reply> {
    return await this.#nodes.entry(this.#node(request), name, await node, more);
  }

  async #attributes(node: FileNode, ask: () => Later<NodeStat>): Promise<Reply> {
    const asked = node.known?.() ?? await ask();
    const known = node.known?.();
    const keepMs = known ? FOREVER_MS : asked.guess ? 0 : this.#keepMs;
    return attributesReply(node.id, known ?? asked, keepMs);
  }

  /** The kernel forgets an entry, and what it keeps of a file; what it does not know is fine. */
  async forget({ folder, name, id }: Forgotten): Promise<void> {
    const tells: Uint8Array<ArrayBuffer>[] = [];
    const [number, at] = [id, folder].map((one) => one && this.#nodes.number(one));
    if (number && this.#nodes.has(number)) tells.push(forgetAttributes(number));
    if (at && name !== undefined && this.#nodes.has(at)) tells.push(forgetEntry(at, name));
    if (tells.length === 0) return;
    // What is being answered at this moment is sent first: it may be what is to be forgotten.
    await new Promise((resolve) => setImmediate(resolve));
    for (const bytes of tells) await this.channel.tell(bytes);
  }

  #opened(reply: Reply, at: number, file: OpenFile): Reply {
    const handle = ++this.#handles;
    this.#files.set(handle, file);
    return reply.u64(at, handle).u32(at + 8, this.#keepsCache ? FOPEN_KEEP_CACHE : 0);
  }

  async #setattr(request: Request): Promise<Reply> {
    const node = this.#node(request);
    const { changes, size, handle } = changesOf(request);
    const file = handle === undefined ? undefined : this.#files.get(handle);
    const writer = writerOf(node);
    if (size !== undefined) {
      // A file that is open for writing needs no further permission.
      if (file?.truncate && file.write) await file.truncate(size);
      else changes.size = size;
    }
    await writer.change(changes);
    return await this.#attributes(node, () => node.takeStat?.() ?? node.stat());
  }

  async #lock(request: Request): Promise<boolean> {
    const file = this.#file(request);
    if (!file.lock) throw new FileError(ERRNO.ENOSYS);
    const lock = lockOf(request);
    if (!lock.flock) this.#locked.add(file);
    if (!await file.lock(lock)) return false;
    // What the kernel has kept of the file may be older than the lock.
    if (lock.type !== "none") await this.channel.tell(forgetContent(request.node));
    return true;
  }

  async #lockInTurn(request: Request): Promise<Reply> {
    const wait = new AbortController();
    this.#waits.set(request.unique, wait);
    try {
      await untilLocked(() => this.#lock(request), wait.signal);
      return done();
    } finally {
      this.#waits.delete(request.unique);
    }
  }
}
