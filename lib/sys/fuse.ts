/**
 * FUSE without libfuse: a read-only tree whose files are read by a function (linux/fuse.h, protocol 7).
 * The process that serves a mount must never touch it synchronously: it would wait for itself.
 */
import fs from "node:fs";
import { mount, MS, unmount } from "./mount.ts";

export type FuseKind = "file" | "directory" | "symlink";

export interface FuseNode {
  kind: FuseKind;
  /** Permission bits. */
  mode: number;
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  link?: string;
  /** Of a folder: numbers of its entries by name. */
  children?: Map<string, number>;
}

export interface FuseFile {
  /** Fewer bytes than asked for only at the end. */
  read(offset: number, count: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Owned by root; numbers begin with 1, the root folder. It does not change while it is mounted. */
export interface FuseTree {
  node(number: number): FuseNode | undefined;
  open(number: number): Promise<FuseFile>;
}

const OP = {
  LOOKUP: 1,
  FORGET: 2,
  GETATTR: 3,
  READLINK: 5,
  OPEN: 14,
  READ: 15,
  STATFS: 17,
  RELEASE: 18,
  FLUSH: 25,
  INIT: 26,
  OPENDIR: 27,
  READDIR: 28,
  RELEASEDIR: 29,
  ACCESS: 34,
  INTERRUPT: 36,
  DESTROY: 38,
  BATCH_FORGET: 42,
} as const;

const ENOENT = 2;
const EIO = 5;
const EBADF = 9;
const ENOSYS = 38;

const IN_HEADER = 40;
const OUT_HEADER = 16;
const ATTR = 88;
const BUFFER = 256 * 1024;
/** What the kernel reads ahead: more would fetch what nobody asked for. */
const READ_AHEAD = 128 * 1024;
/** Seconds that the kernel may believe what it was told: nothing changes. */
const FOREVER = 86_400n;
const ASYNC_READ = 1;
const PARALLEL_DIROPS = 1 << 18;
const FOPEN_KEEP_CACHE = 2;

const TYPE_BITS: Record<FuseKind, number> = {
  file: 0o100000,
  directory: 0o040000,
  symlink: 0o120000,
};
const DIRENT: Record<FuseKind, number> = { directory: 4, file: 8, symlink: 10 };

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** One answer: header and room for a body. */
class Reply {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly view: DataView;

  constructor(readonly unique: bigint, size: number, error = 0) {
    this.bytes = new Uint8Array(OUT_HEADER + size);
    this.view = new DataView(this.bytes.buffer);
    this.view.setUint32(0, this.bytes.length, true);
    this.view.setInt32(4, -error, true);
    this.view.setBigUint64(8, unique, true);
  }

  u32(at: number, value: number): void {
    this.view.setUint32(OUT_HEADER + at, value, true);
  }

  u64(at: number, value: bigint | number): void {
    this.view.setBigUint64(OUT_HEADER + at, BigInt(value), true);
  }

  attributes(at: number, number: number, node: FuseNode): void {
    this.u64(at, number);
    this.u64(at + 8, node.size);
    this.u64(at + 16, Math.ceil(node.size / 512));
    for (const time of [24, 32, 40]) this.u64(at + time, Math.max(0, node.mtime));
    for (const time of [48, 52, 56]) this.u32(at + time, node.mtimeNs);
    this.u32(at + 60, TYPE_BITS[node.kind] | node.mode);
    this.u32(at + 64, node.kind === "directory" ? 2 : 1);
    this.u32(at + 80, 4096);
  }
}

class Server {
  #files = new Map<bigint, FuseFile>();
  #handles = 0n;

  constructor(readonly fd: number, readonly tree: FuseTree) {}

  /** Reads requests until the mount ends. */
  async serve(): Promise<void> {
    const buffer = new Uint8Array(BUFFER);
    try {
      while (true) {
        const { size, code } = await this.#next(buffer);
        if (code === "ENODEV") return;
        // A request that was taken back before it was read.
        if (code === "ENOENT" || code === "EINTR" || code === "EAGAIN") continue;
        if (code !== undefined || size < IN_HEADER) return;
        if (!this.#handle(new DataView(buffer.slice(0, size).buffer))) return;
      }
    } finally {
      for (const file of this.#files.values()) file.close().catch(() => {/* it is gone */});
      fs.closeSync(this.fd);
    }
  }

  #next(buffer: Uint8Array): Promise<{ size: number; code?: string }> {
    return new Promise((resolve) =>
      fs.read(
        this.fd,
        buffer,
        0,
        buffer.length,
        null,
        (error, size) =>
          resolve(error ? { size: 0, code: (error as { code?: string }).code ?? "EIO" } : { size }),
      )
    );
  }

  #send(reply: Reply): void {
    try {
      fs.writeSync(this.fd, reply.bytes);
    } catch {
      // The one who asked is gone, or the mount is.
    }
  }

  /** False at the end. */
  #handle(request: DataView): boolean {
    const op = request.getUint32(4, true);
    const unique = request.getBigUint64(8, true);
    const number = Number(request.getBigUint64(16, true));
    switch (op) {
      case OP.FORGET:
      case OP.BATCH_FORGET:
      case OP.INTERRUPT:
        return true;
      case OP.INIT:
        this.#send(this.#init(request, unique));
        return true;
      case OP.READ:
        this.#read(request, unique).then((reply) => this.#send(reply));
        return true;
      case OP.OPEN:
        this.#open(number, unique).then((reply) => this.#send(reply));
        return true;
      case OP.DESTROY:
        this.#send(new Reply(unique, 0));
        return false;
      default:
        this.#send(this.#answer(op, number, request, unique));
        return true;
    }
  }

  #answer(op: number, number: number, request: DataView, unique: bigint): Reply {
    const node = this.tree.node(number);
    if (!node) return new Reply(unique, 0, ENOENT);
    switch (op) {
      case OP.LOOKUP:
        return this.#lookup(node, request, unique);
      case OP.GETATTR: {
        const reply = new Reply(unique, 16 + ATTR);
        reply.u64(0, FOREVER);
        reply.attributes(16, number, node);
        return reply;
      }
      case OP.READLINK: {
        const target = encoder.encode(node.link ?? "");
        const reply = new Reply(unique, target.length);
        reply.bytes.set(target, OUT_HEADER);
        return reply;
      }
      case OP.OPENDIR:
        return new Reply(unique, 16);
      case OP.READDIR:
        return this.#readdir(number, node, request, unique);
      case OP.STATFS: {
        const reply = new Reply(unique, 80);
        reply.u32(40, 4096);
        reply.u32(44, 255);
        reply.u32(48, 4096);
        return reply;
      }
      case OP.RELEASE:
        this.#release(request.getBigUint64(IN_HEADER, true));
        return new Reply(unique, 0);
      case OP.FLUSH:
      case OP.RELEASEDIR:
      case OP.ACCESS:
        return new Reply(unique, 0);
      default:
        return new Reply(unique, 0, ENOSYS);
    }
  }

  #init(request: DataView, unique: bigint): Reply {
    const reply = new Reply(unique, 64);
    reply.u32(0, 7);
    reply.u32(4, Math.min(request.getUint32(IN_HEADER + 4, true), 31));
    reply.u32(8, Math.min(request.getUint32(IN_HEADER + 8, true), READ_AHEAD));
    reply.u32(12, ASYNC_READ | PARALLEL_DIROPS);
    reply.view.setUint16(OUT_HEADER + 16, 32, true);
    reply.view.setUint16(OUT_HEADER + 18, 24, true);
    reply.u32(20, READ_AHEAD);
    reply.u32(24, 1);
    return reply;
  }

  #lookup(folder: FuseNode, request: DataView, unique: bigint): Reply {
    const bytes = new Uint8Array(request.buffer, IN_HEADER);
    const name = decoder.decode(bytes.subarray(0, bytes.indexOf(0)));
    const found = folder.children?.get(name);
    const node = found === undefined ? undefined : this.tree.node(found);
    if (!node) return new Reply(unique, 0, ENOENT);
    const reply = new Reply(unique, 40 + ATTR);
    reply.u64(0, found!);
    reply.u64(16, FOREVER);
    reply.u64(24, FOREVER);
    reply.attributes(40, found!, node);
    return reply;
  }

  #readdir(number: number, folder: FuseNode, request: DataView, unique: bigint): Reply {
    const offset = Number(request.getBigUint64(IN_HEADER + 8, true));
    const room = Math.min(request.getUint32(IN_HEADER + 16, true), READ_AHEAD);
    const reply = new Reply(unique, room);
    const entries: [string, number][] = [[".", number], ["..", number], ...folder.children ?? []];
    let at = 0;
    for (let index = offset; index < entries.length; index++) {
      const [name, child] = entries[index];
      const bytes = encoder.encode(name);
      const size = (24 + bytes.length + 7) & ~7;
      if (at + size > room) break;
      reply.u64(at, child);
      reply.u64(at + 8, index + 1);
      reply.u32(at + 16, bytes.length);
      reply.u32(at + 20, DIRENT[this.tree.node(child)?.kind ?? "directory"]);
      reply.bytes.set(bytes, OUT_HEADER + at + 24);
      at += size;
    }
    const cut = new Reply(unique, at);
    cut.bytes.set(reply.bytes.subarray(OUT_HEADER, OUT_HEADER + at), OUT_HEADER);
    return cut;
  }

  async #open(number: number, unique: bigint): Promise<Reply> {
    try {
      const file = await this.tree.open(number);
      const handle = ++this.#handles;
      this.#files.set(handle, file);
      const reply = new Reply(unique, 16);
      reply.u64(0, handle);
      reply.u32(8, FOPEN_KEEP_CACHE);
      return reply;
    } catch {
      return new Reply(unique, 0, EIO);
    }
  }

  async #read(request: DataView, unique: bigint): Promise<Reply> {
    const file = this.#files.get(request.getBigUint64(IN_HEADER, true));
    if (!file) return new Reply(unique, 0, EBADF);
    const offset = Number(request.getBigUint64(IN_HEADER + 8, true));
    try {
      const bytes = await file.read(offset, request.getUint32(IN_HEADER + 16, true));
      const reply = new Reply(unique, bytes.length);
      reply.bytes.set(bytes, OUT_HEADER);
      return reply;
    } catch {
      return new Reply(unique, 0, EIO);
    }
  }

  #release(handle: bigint): void {
    const file = this.#files.get(handle);
    this.#files.delete(handle);
    file?.close().catch(() => {/* it is gone */});
  }
}

/** True where this machine has FUSE; whether it may be mounted is seen when it is. */
export function hasFuse(): boolean {
  try {
    return Deno.build.os === "linux" && Deno.statSync("/dev/fuse").isCharDevice === true;
  } catch {
    return false;
  }
}

/**
 * Mounts the tree at `target`, an existing folder; disposing unmounts it. Throws `SystemError` where it
 * cannot be mounted.
 */
export function mountFuse(target: string, tree: FuseTree): AsyncDisposable {
  const fd = fs.openSync("/dev/fuse", "r+");
  try {
    const options = `fd=${fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions`;
    mount("svc", target, "fuse.svc", MS.RDONLY | MS.NOSUID | MS.NODEV, options);
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
  const serving = new Server(fd, tree).serve();
  return {
    async [Symbol.asyncDispose]() {
      unmount(target, { detach: true });
      await serving;
    },
  };
}
