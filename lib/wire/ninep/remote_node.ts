/** Files of a 9P server as nodes, for a mount. Nothing is cached here. */
import {
  type Changes,
  ERRNO,
  FileError,
  type FileLock,
  type FileNode,
  type FileTime,
  type FolderEntry,
  MAX_XATTR,
  type NodeKind,
  type NodeStat,
  type NodeWriter,
  type OpenFile,
  type OpenFolder,
  type Space,
} from "../files/node.ts";
import type { NinepClient } from "./client.ts";
import { kindOfQid } from "./listing.ts";
import {
  LOCK_STATUS,
  LOCK_TYPES,
  type Qid,
  REMOVE_FOLDER,
  SET,
  T,
  type Writer,
} from "./messages.ts";

/** Group of new files; the server decides on the owner itself. */
const GROUP = 0;

/** Flags of setxattr(2). */
const XATTR_CREATE = 1;
const XATTR_REPLACE = 2;

/** Reads an open fid to its end. */
async function readAll(
  client: NinepClient,
  fid: number,
  offset: number,
  into: Uint8Array,
): Promise<number> {
  let have = 0;
  while (have < into.length) {
    const count = Math.min(into.length - have, client.readSize);
    const part = await client.read(fid, offset + have, count);
    into.set(part, have);
    have += part.length;
    if (part.length === 0) break;
  }
  return have;
}

async function writeAll(
  client: NinepClient,
  fid: number,
  offset: number,
  bytes: Uint8Array,
): Promise<number> {
  let done = 0;
  while (done < bytes.length) {
    const part = await client.write(fid, offset + done, bytes.subarray(done));
    if (part === 0) break;
    done += part;
  }
  return done;
}

export class RemoteFile implements OpenFile {
  constructor(readonly client: NinepClient, readonly fid: number) {}

  read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    return readAll(this.client, this.fid, offset, into);
  }

  write(offset: number, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    return writeAll(this.client, this.fid, offset, bytes);
  }

  truncate(size: number): Promise<void> {
    return change(this.client, this.fid, { size });
  }

  sync(dataOnly: boolean): Promise<void> {
    return sync(this.client, this.fid, dataOnly);
  }

  async lock(lock: FileLock): Promise<boolean> {
    const fill = (request: Writer) => {
      request.u32(this.fid).u8(LOCK_TYPES.indexOf(lock.type)).u32(0);
      return request.u64(lock.start).u64(lock.length).u32(0).text(lock.owner);
    };
    const status = await this.client.ask(T.LOCK, fill, (reply) => reply.u8());
    if (status === LOCK_STATUS.SUCCESS) return true;
    if (status === LOCK_STATUS.BLOCKED) return false;
    throw new FileError(ERRNO.EIO, "it was not locked");
  }

  async lockInTheWay(lock: FileLock): Promise<FileLock | undefined> {
    const fill = (request: Writer) => {
      request.u32(this.fid).u8(LOCK_TYPES.indexOf(lock.type));
      return request.u64(lock.start).u64(lock.length).u32(0).text(lock.owner);
    };
    const found = await this.client.ask(T.GETLOCK, fill, (reply) => {
      const type = LOCK_TYPES[reply.u8()] ?? "none";
      const [start, length] = [reply.u64(), reply.u64()];
      reply.u32();
      return { type, start, length, owner: reply.text() };
    });
    return found.type === "none" ? undefined : found;
  }

  close(): Promise<void> {
    return this.client.clunk(this.fid);
  }
}

function sync(client: NinepClient, fid: number, dataOnly: boolean): Promise<void> {
  return client.ask(T.FSYNC, (request) => request.u32(fid).u32(dataOnly ? 1 : 0), () => {});
}

function change(client: NinepClient, fid: number, changes: Changes): Promise<void> {
  const { mode, uid, gid, size, atime, mtime } = changes;
  const given = (bit: number, value: unknown) => value === undefined ? 0 : bit;
  const timed = (bit: number, set: number, time?: FileTime | "now") =>
    given(bit, time) | (typeof time === "object" ? set : 0);
  const valid = given(SET.MODE, mode) | given(SET.UID, uid) | given(SET.GID, gid) |
    given(SET.SIZE, size) | timed(SET.ATIME, SET.ATIME_GIVEN, atime) |
    timed(SET.MTIME, SET.MTIME_GIVEN, mtime);
  const fill = (request: Writer) => {
    request.u32(fid).u32(valid).u32(mode ?? 0).u32(uid ?? 0).u32(gid ?? 0).u64(size ?? 0);
    for (const time of [atime, mtime]) {
      const { s, ns } = typeof time === "object" ? time : { s: 0, ns: 0 };
      request.u64(s).u64(ns);
    }
    return request;
  };
  return client.ask(T.SETATTR, fill, () => {});
}

export class RemoteNode implements FileNode, NodeWriter {
  readonly kind: NodeKind;
  readonly id: bigint;
  readonly writer: NodeWriter | undefined;

  constructor(
    readonly client: NinepClient,
    readonly fid: number,
    qid: Qid,
    readonly writable: boolean,
  ) {
    this.kind = kindOfQid(qid.type);
    this.id = qid.path;
    this.writer = writable ? this : undefined;
  }

  close(): void {
    this.client.clunk(this.fid).catch(() => {/* told by the next call */});
  }

  stat(): Promise<NodeStat> {
    return this.client.getattr(this.fid);
  }

  async walk(name: string): Promise<RemoteNode> {
    const { fid, qid } = await this.client.lookup(this.fid, [name]);
    return new RemoteNode(this.client, fid, qid!, this.writable);
  }

  async open(flags: number): Promise<RemoteFile> {
    return new RemoteFile(this.client, await this.#opened(flags));
  }

  async list(): Promise<OpenFolder> {
    const { client } = this;
    if (this.kind !== "directory") throw new FileError(ERRNO.ENOTDIR, "it is not a folder");
    const fid = await this.#opened(0);
    return {
      read: (offset): Promise<FolderEntry[]> => client.readdir(fid, offset),
      sync: () => sync(client, fid, false),
      close: () => client.clunk(fid),
    };
  }

  readlink(): Promise<string> {
    return this.client.readlink(this.fid);
  }

  space(): Promise<Space> {
    return this.client.ask(T.STATFS, (request) => request.u32(this.fid), (reply) => {
      reply.u32();
      const blockSize = reply.u32();
      const [blocks, free, available] = [reply.u64(), reply.u64(), reply.u64()];
      const [files, filesFree] = [reply.u64(), reply.u64()];
      return { blockSize, blocks, free, available, files, filesFree };
    });
  }

  getXattr(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.#xattr(name);
  }

  async listXattrs(): Promise<string[]> {
    const names = await this.#xattr("");
    return new TextDecoder().decode(names).split("\0").filter((name) => name !== "");
  }

  async create(name: string, flags: number, mode: number) {
    const fid = await this.client.walk(this.fid, []);
    try {
      const fill = (request: Writer) => request.u32(fid).text(name).u32(flags).u32(mode).u32(GROUP);
      const made = await this.client.ask(T.LCREATE, fill, (reply) => reply.qid());
      const node = await this.walk(name);
      if (node.id === made.path) return { node, file: new RemoteFile(this.client, fid) };
      node.close();
      throw new FileError(ERRNO.ESTALE, "it was replaced at once");
    } catch (error) {
      await this.client.clunk(fid).catch(() => {});
      throw error;
    }
  }

  async mkdir(name: string, mode: number): Promise<RemoteNode> {
    await this.#make(T.MKDIR, (request) => request.text(name).u32(mode).u32(GROUP));
    return await this.walk(name);
  }

  async symlink(name: string, target: string): Promise<RemoteNode> {
    await this.#make(T.SYMLINK, (request) => request.text(name).text(target).u32(GROUP));
    return await this.walk(name);
  }

  async mknod(name: string, mode: number): Promise<RemoteNode> {
    const fill = (request: Writer) => request.text(name).u32(mode).u32(0).u32(0).u32(GROUP);
    await this.#make(T.MKNOD, fill);
    return await this.walk(name);
  }

  link(name: string, target: FileNode): Promise<void> {
    const { fid } = this.#own(target);
    return this.#make(T.LINK, (request) => request.u32(fid).text(name));
  }

  remove(name: string, kind: "folder" | "other"): Promise<void> {
    const flags = kind === "folder" ? REMOVE_FOLDER : 0;
    return this.#make(T.UNLINKAT, (request) => request.text(name).u32(flags));
  }

  rename(name: string, to: FileNode, newName: string): Promise<void> {
    const { fid } = this.#own(to);
    return this.#make(T.RENAMEAT, (request) => request.text(name).u32(fid).text(newName));
  }

  change(changes: Changes): Promise<void> {
    return change(this.client, this.fid, changes);
  }

  async setXattr(name: string, value: Uint8Array<ArrayBuffer>, flags: number): Promise<void> {
    if (value.length > 0 || flags !== 0) return await this.#setXattr(name, value, flags);
    // Without a flag, an empty value means removal.
    await this.#setXattr(name, value, XATTR_REPLACE).catch((error) => {
      if ((error as FileError).errno !== ERRNO.ENODATA) throw error;
      return this.#setXattr(name, value, XATTR_CREATE);
    });
  }

  removeXattr(name: string): Promise<void> {
    return this.#setXattr(name, new Uint8Array(0), 0);
  }

  async #setXattr(name: string, value: Uint8Array, flags: number): Promise<void> {
    const fid = await this.client.walk(this.fid, []);
    try {
      const fill = (request: Writer) => request.u32(fid).text(name).u64(value.length).u32(flags);
      await this.client.ask(T.XATTRCREATE, fill, () => {});
      await writeAll(this.client, fid, 0, value);
    } finally {
      // The clunk sets the attribute.
      await this.client.clunk(fid);
    }
  }

  async #xattr(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const fid = this.client.takeFid();
    const fill = (request: Writer) => request.u32(this.fid).u32(fid).text(name);
    let size: bigint;
    try {
      size = await this.client.ask(T.XATTRWALK, fill, (reply) => reply.u64());
    } catch (error) {
      this.client.giveFid(fid);
      throw error;
    }
    try {
      if (size > BigInt(MAX_XATTR)) throw new FileError(ERRNO.EIO, "the value is too long");
      const value = new Uint8Array(Number(size));
      return value.subarray(0, await readAll(this.client, fid, 0, value));
    } finally {
      await this.client.clunk(fid);
    }
  }

  async #opened(flags: number): Promise<number> {
    const fid = await this.client.walk(this.fid, []);
    try {
      await this.client.open(fid, flags);
      return fid;
    } catch (error) {
      await this.client.clunk(fid).catch(() => {});
      throw error;
    }
  }

  /** Sends a request that begins with this folder's fid. */
  #make(type: number, fill: (request: Writer) => Writer): Promise<void> {
    return this.client.ask(type, (request) => fill(request.u32(this.fid)), () => {});
  }

  #own(node: FileNode): RemoteNode {
    if (node instanceof RemoteNode && node.client === this.client) return node;
    throw new FileError(ERRNO.EXDEV, "it is of another server");
  }
}

/**
 * The root of an export. `writable`: the nodes send changes; the server decides whether to accept them. The
 * caller closes the node.
 */
export async function remoteRoot(
  client: NinepClient,
  name: string,
  { writable = false, uid = 0 }: { writable?: boolean; uid?: number } = {},
): Promise<RemoteNode> {
  const fid = await client.attach(name, uid);
  const { qid } = await client.getattr(fid);
  return new RemoteNode(client, fid, qid, writable);
}
