/**
 * Files of a 9P server as nodes, for a mount. Nothing is cached here. Requests that build on each other are sent
 * together where the server does them in order, so that a call takes one round trip.
 */
import {
  type Changes,
  type FileNode,
  type FolderEntry,
  MAX_XATTR,
  type NodeWriter,
  type OpenFolder,
  type Space,
} from "../files/node.ts";
import type { NinepClient } from "./client.ts";
import type { Walk } from "./client_types.ts";
import { kindOfQid } from "./answers.ts";
import { type Qid, type Reader, REMOVE_FOLDER, T, type Writer } from "./messages.ts";
import { Ahead, change, readAll, RemoteFile, sync, writeAll } from "./remote_file.ts";
import { ERRNO, FileError, type NodeKind, type NodeStat } from "../files/stat.ts";

/** Group of new files; the server decides on the owner itself. */
export const GROUP = 0;

/** Flags of setxattr(2). */
const XATTR_CREATE = 1;
const XATTR_REPLACE = 2;
/** The only attributes that a caller has (files/host_node.ts): for others it need not be asked. */
const OWN_XATTRS = "user.";

/** Throws EOPNOTSUPP for an attribute that no caller has. */
export function requireOwnXattr(name: string): void {
  if (!name.startsWith(OWN_XATTRS)) throw new FileError(ERRNO.EOPNOTSUPP, "it has only user.*");
}

/** Called when the answer comes, before whatever comes after it, with the qid of what was made. */
type Done = (made: Qid) => void;

export class RemoteNode implements FileNode, NodeWriter {
  readonly kind: NodeKind;
  readonly id: bigint;
  readonly writer: NodeWriter | undefined;

  /** What came with the last answer, for `takeStat`. */
  #stat: NodeStat | undefined;

  /** `ahead`: files read ahead, and do not wait for their writes; it is shared by all nodes of a mount. */
  constructor(
    readonly client: NinepClient,
    readonly fid: number,
    qid: Qid,
    readonly writable: boolean,
    readonly ahead?: Ahead,
  ) {
    this.kind = kindOfQid(qid.type);
    this.id = qid.path;
    this.writer = writable ? this : undefined;
  }

  close(): void {
    this.client.letGo(this.fid);
  }

  async stat(): Promise<NodeStat> {
    const ask = () => this.client.getattr(this.fid);
    return await (this.ahead?.stat(this.id, ask) ?? ask());
  }

  takeStat(): NodeStat | undefined {
    const stat = this.#stat;
    this.#stat = undefined;
    return stat;
  }

  async walk(name: string): Promise<RemoteNode> {
    return await this.#walked(this.client.begin(this.fid, [name]));
  }

  /** The node of a walk under way, with its attributes. `known`: its qid, where the walk does not tell. */
  async #walked(
    { fid, found }: Walk,
    known: Promise<Qid | undefined> = found,
  ): Promise<RemoteNode> {
    const stat = this.#next(found, () => this.client.getattr(fid));
    await found;
    try {
      const qid = await known;
      return this.#node(fid, qid!, await stat.catch(() => undefined));
    } catch (error) {
      this.client.clunk(fid).catch(() => {/* told by the next call */});
      throw error;
    }
  }

  #node(fid: number, qid: Qid, stat: NodeStat | undefined): RemoteNode {
    const node = new RemoteNode(this.client, fid, qid, this.writable, this.ahead);
    node.#keep(stat);
    return node;
  }

  /** Keeps attributes for `takeStat`, unless they are not final yet. */
  #keep(stat: NodeStat | undefined): void {
    this.#stat = this.ahead?.writes.settled(this.id) ? undefined : stat;
  }

  /** Sends a request that needs what another one does: with that one where the server works in order. */
  #next<R>(before: Promise<unknown>, send: () => Promise<R>): Promise<R> {
    const answer = this.client.inOrder ? send() : before.then(send);
    // Who waits for it is told; nobody does where the one before fails.
    answer.catch(() => {});
    return answer;
  }

  /** `sure`: throws where the node's fid turns out to be another file's. Nothing is kept of that as if it were this. */
  async open(flags: number, sure?: Promise<void>): Promise<RemoteFile> {
    const { client, ahead, id } = this;
    await ahead?.writes.settled(id);
    const opening = ahead?.opening(client, { id, flags });
    const fid = await this.#opened(ahead?.flags(flags) ?? flags, opening?.follow, sure);
    return opening?.file(fid, id) ?? new RemoteFile(client, fid);
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

  async getXattr(name: string): Promise<Uint8Array<ArrayBuffer>> {
    requireOwnXattr(name);
    return await this.#xattr(name);
  }

  async listXattrs(): Promise<string[]> {
    const names = await this.#xattr("");
    return new TextDecoder().decode(names).split("\0").filter((name) => name !== "");
  }

  async create(name: string, flags: number, mode: number, done?: Done) {
    const { client, ahead } = this;
    await ahead?.writes.all();
    const { fid, found } = client.begin(this.fid, []);
    const how = ahead?.flags(flags) ?? flags;
    const fill = (request: Writer) => request.u32(fid).text(name).u32(how).u32(mode).u32(GROUP);
    const answer = (reply: Reader) => {
      const qid = reply.qid();
      done?.(qid);
      return qid;
    };
    const made = this.#next(found, () => client.ask(T.LCREATE, fill, answer));
    const opening = ahead?.opening(client, { flags });
    opening?.follow(fid);
    // Our server walks from an open file to itself; others walk by the name only.
    const walked = client.inOrder
      ? this.#walked(client.begin(fid, []), made)
      : made.then(() => this.walk(name));
    walked.catch(() => {/* told below */});
    await found;
    try {
      const { path } = await made;
      const node = await walked;
      if (node.id === path) {
        return { node, file: opening?.file(fid, path) ?? new RemoteFile(client, fid) };
      }
      node.close();
      throw new FileError(ERRNO.ESTALE, "it was replaced at once");
    } catch (error) {
      client.clunk(fid).catch(() => {/* told by the next call */});
      throw error;
    }
  }

  /** `follow` may send requests that go with it, by the new folder's fid. */
  mkdir(name: string, mode: number, done?: Done, follow?: (fid: number) => void) {
    const fill = (request: Writer) => request.text(name).u32(mode).u32(GROUP);
    return this.#entry(T.MKDIR, name, fill, done, follow);
  }

  symlink(name: string, target: string, done?: Done): Promise<RemoteNode> {
    const fill = (request: Writer) => request.text(name).text(target).u32(GROUP);
    return this.#entry(T.SYMLINK, name, fill, done);
  }

  mknod(name: string, mode: number, done?: Done): Promise<RemoteNode> {
    const fill = (request: Writer) => request.text(name).u32(mode).u32(0).u32(0).u32(GROUP);
    return this.#entry(T.MKNOD, name, fill, done);
  }

  /** Makes an entry, and walks to it. */
  async #entry(
    type: number,
    name: string,
    fill: (request: Writer) => Writer,
    done?: Done,
    follow?: (fid: number) => void,
  ): Promise<RemoteNode> {
    const made = this.#make(type, fill, (reply) => done?.(reply.qid()));
    const node = this.#next(made, () => {
      const walk = this.client.begin(this.fid, [name]);
      follow?.(walk.fid);
      return this.#walked(walk);
    });
    try {
      await made;
    } catch (error) {
      // It may have found what stands in the way.
      node.then((node) => node.close(), () => {});
      throw error;
    }
    return await node;
  }

  async link(name: string, target: FileNode, done?: () => void): Promise<void> {
    const { fid } = this.#own(target);
    await this.ahead?.writes.all();
    await this.#make(T.LINK, (request) => request.u32(fid).text(name), done);
  }

  remove(name: string, kind: "folder" | "other", done?: () => void): Promise<void> {
    const flags = kind === "folder" ? REMOVE_FOLDER : 0;
    return this.#make(T.UNLINKAT, (request) => request.text(name).u32(flags), done);
  }

  /** Whoever sees a file by its new name sees all that was written to it. */
  async rename(name: string, to: FileNode, newName: string, done?: () => void): Promise<void> {
    const { fid } = this.#own(to);
    await this.ahead?.writes.all();
    const fill = (request: Writer) => request.text(name).u32(fid).text(newName);
    await this.#make(T.RENAMEAT, fill, done);
  }

  async change(changes: Changes, heard?: () => void): Promise<void> {
    await this.ahead?.writes.settled(this.id);
    const changed = this.#altering(() => change(this.client, this.fid, changes, heard));
    const stat = this.#next(changed, () => this.client.getattr(this.fid));
    await changed;
    if (changes.size !== undefined) this.ahead?.changed(this.id, true);
    this.#keep(await stat.catch(() => undefined));
  }

  /** Sent in its order, and not waited for. */
  changeBehind(changes: Changes, heard: () => void): Promise<void> {
    const changed = this.#altering(() => change(this.client, this.fid, changes, heard));
    this.ahead!.writes.add(
      this.id,
      this.fid,
      0,
      changed.catch(() => {/* told by who asked for it */}),
    );
    return changed;
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

  /** `follow` may send requests that go with the opening. */
  async #opened(
    flags: number,
    follow: (fid: number) => void = () => {},
    sure?: Promise<void>,
  ): Promise<number> {
    const { client } = this;
    const { fid, found } = client.begin(this.fid, []);
    const opened = this.#next(found, () => client.open(fid, flags));
    follow(fid);
    await found;
    try {
      await opened;
      await sure;
      return fid;
    } catch (error) {
      client.clunk(fid).catch(() => {/* told by the next call */});
      throw error;
    }
  }

  /** Sends a request that begins with this folder's fid. */
  #make(
    type: number,
    fill: (request: Writer) => Writer,
    done: (reply: Reader) => void = () => {},
  ): Promise<void> {
    return this.#altering(() =>
      this.client.ask(type, (request) => fill(request.u32(this.fid)), done)
    );
  }

  async #altering(work: () => Promise<void>): Promise<void> {
    this.ahead?.altered();
    try {
      await work();
    } finally {
      this.ahead?.altered();
    }
  }

  #own(node: FileNode): RemoteNode {
    if (node instanceof RemoteNode && node.client === this.client) return node;
    throw new FileError(ERRNO.EXDEV, "it is of another server");
  }
}

export interface RemoteRootOptions {
  /** The nodes send changes; the server decides whether to accept them. */
  writable?: boolean;
  uid?: number;
  /**
   * Files read ahead, and do not wait for their writes (remote_file.ts). For servers that work in order. Another
   * root of the same mount takes that of the first.
   */
  ahead?: boolean | Ahead;
}

/** The root of an export. The caller closes the node. */
export async function remoteRoot(
  client: NinepClient,
  name: string,
  { writable = false, uid = 0, ahead = false }: RemoteRootOptions = {},
): Promise<RemoteNode> {
  const fid = await client.attach(name, uid);
  const { qid } = await client.getattr(fid);
  return new RemoteNode(
    client,
    fid,
    qid,
    writable,
    ahead === true ? new Ahead() : ahead || undefined,
  );
}
