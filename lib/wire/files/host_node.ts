/**
 * Files of this machine as nodes. Each node holds a descriptor (O_PATH), and every call starts at one. An entry
 * is opened by its name below its folder's descriptor, and links are not followed: no name leads outside, also
 * while files are being exchanged. A node stays the same file when the file is renamed.
 */
import { decodeRaw } from "../../base/raw_string.ts";
import { type DescriptorStat, statDescriptor } from "../../sys/entry_stat.ts";
import { procPath } from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import type { FolderNews } from "../../sys/inotify.ts";
import { type Bytes, callElsewhere, callHere, cbytes, tryCall } from "../../sys/system_call.ts";
import { type Entries, HostFile, HostFolder } from "./host_file.ts";
import { setHostTimes } from "./host_times.ts";
import { getHostXattr, isOwnXattr, listHostXattrs } from "./host_xattrs.ts";
import { watchHostFolder } from "./host_watch.ts";
import { type HostOptions, HostTree } from "./host_tree.ts";
import {
  asksToWrite,
  type Changes,
  checkName,
  type FileNode,
  kindOf,
  MAX_TARGET,
  type NodeWriter,
  OPEN,
  readOnly,
  type Space,
  TYPE_BITS,
  TYPE_MASK,
  type WatchedFolder,
} from "./node.ts";
import { ERRNO, FileError } from "./stat.ts";
import type { Later, NodeKind, NodeStat } from "./stat.ts";

const { PATH, NOFOLLOW, CLOEXEC, DIRECTORY, NONBLOCK, NOCTTY, RDONLY } = O;
/** Flags of openat2(2): answer from memory or fail with EAGAIN; never leave the folder. */
const RESOLVE_CACHED = 0x20n;
const RESOLVE_BENEATH = 8n;
const RESOLVE_NO_MAGICLINKS = 2n;
const HOW = new Uint8Array(
  new BigUint64Array([
    BigInt(PATH | NOFOLLOW | CLOEXEC),
    0n,
    RESOLVE_CACHED | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
  ]).buffer,
);
/**
 * Errors after which the call is repeated in another thread: EAGAIN, and those of kernels and sandboxes without
 * openat2.
 */
const ASK_THE_DISK: readonly number[] = [-ERRNO.EAGAIN, -ERRNO.EINVAL, -ERRNO.ENOSYS, -ERRNO.EPERM];

const AT_REMOVEDIR = 0x200;
const AT_SYMLINK_FOLLOW = 0x400;

/** Mode bits that a client may set: without setuid and setgid, which would run a program as another user. */
const FILE_MODE = 0o1777;
const FOLDER_MODE = 0o3777;
const SET_ID = 0o6000;

const EMPTY = cbytes("");

export class HostNode implements FileNode, NodeWriter {
  #tree: HostTree;
  #fd: number;
  /** Path from the root, as it was walked: the argument of `visible`. */
  #path: string;
  #dev: number;
  readonly kind: NodeKind;
  readonly id: bigint;

  /** Owns `fd`: closing the node closes it. */
  constructor(tree: HostTree, fd: number, stat: DescriptorStat, path: string) {
    this.#tree = tree;
    this.#fd = fd;
    this.#path = path;
    this.#dev = stat.dev;
    this.kind = kindOf(stat.mode);
    this.id = tree.idOf(stat.dev, stat.ino);
  }

  get writer(): NodeWriter | undefined {
    return this.#tree.writable ? this : undefined;
  }

  close(): void {
    this.#tree.close(this.#fd);
  }

  stat(): NodeStat {
    return { ...statDescriptor(this.#fd), ...this.#tree.owner };
  }

  walk(name: string): HostNode | Promise<HostNode> {
    checkName(name);
    this.#requireFolder();
    const bytes = cbytes(name);
    this.#tree.reserve();
    const fd = tryCall("openat2", this.#fd, bytes, HOW, HOW.length);
    if (fd >= 0) return this.#entry(name, fd);
    this.#tree.release();
    if (!ASK_THE_DISK.includes(fd)) throw new FileError(-fd, name);
    return this.#tree.open(this.#fd, name, PATH | NOFOLLOW).then((fd) => this.#entry(name, fd));
  }

  /** How this node goes to another process, and is made again there. */
  get passed(): { tree: HostTree; fd: number; path: string } {
    return { tree: this.#tree, fd: this.#fd, path: this.#path };
  }

  async list(): Promise<HostFolder> {
    this.#requireFolder();
    return this.listed(await this.#tree.open(-1, procPath(this.#fd), RDONLY | DIRECTORY));
  }

  /** Lists through a descriptor of this folder, and owns it. */
  listed(fd: number): HostFolder {
    const entries: Entries = {
      idOf: (ino) => this.#tree.idOf(this.#dev, ino),
      kindOf: async (name) => {
        try {
          const entry = await this.walk(name);
          entry.close();
          return entry.kind;
        } catch {
          return undefined;
        }
      },
      shows: (name, kind) => this.#shows(name, kind),
    };
    return new HostFolder(this.#tree, fd, entries);
  }

  watch(news: FolderNews): WatchedFolder {
    this.#requireFolder();
    // Names that are not shown would be told.
    if (this.#tree.options.visible) throw new FileError(ERRNO.EOPNOTSUPP, "not all is shown");
    return watchHostFolder(this.#tree, this.#fd, this.id, news);
  }

  async open(flags: number): Promise<HostFile> {
    if (this.kind === "directory") throw new FileError(ERRNO.EISDIR, "it is a folder");
    if (this.kind === "symlink") throw new FileError(ERRNO.ELOOP, "links are not followed");
    // Opening a device may have effects, and opening a FIFO may wait.
    if (this.kind !== "file") throw new FileError(ERRNO.ENXIO, "it is not a file");
    // The other end of `,async` keeps names for a while: a database would take a journal that is gone for one of now.
    if (this.#tree.options.guards && this.stat().nlink === 0) {
      throw new FileError(ERRNO.ESTALE, "it is gone");
    }
    if (asksToWrite(flags)) this.#prepareToWrite();
    const kept = flags & (OPEN.ACCESS | OPEN.APPEND | OPEN.TRUNC | OPEN.SYNC);
    const path = procPath(this.#fd);
    const open = () => this.#tree.open(-1, path, kept | NONBLOCK | NOCTTY);
    return new HostFile(this.#tree, await (flags & OPEN.TRUNC ? this.#own(open) : open()), this.id);
  }

  readlink(): string {
    if (this.kind !== "symlink") throw new FileError(ERRNO.EINVAL, "it is not a link");
    const target = new Uint8Array(new ArrayBuffer(MAX_TARGET + 1));
    const length = callHere("readlinkat", this.#fd, EMPTY, target, target.length);
    return decodeRaw(target.subarray(0, length));
  }

  async space(): Promise<Space> {
    const words = new BigUint64Array(16);
    await callElsewhere("fstatfs", this.#fd, new Uint8Array(words.buffer));
    // struct statfs: type, block size, blocks, free, available, files, free files.
    const [, size, blocks, free, available, files, filesFree] = words;
    return { blockSize: Number(size), blocks, free, available, files, filesFree };
  }

  async getXattr(name: string): Promise<Bytes> {
    this.#requireXattrs();
    if (!isOwnXattr(name)) throw new FileError(ERRNO.EOPNOTSUPP, "only attributes of user.*");
    return await getHostXattr(this.#fd, name);
  }

  async listXattrs(): Promise<string[]> {
    this.#requireXattrs();
    return await listHostXattrs(this.#fd);
  }

  numbered(given: bigint): Pick<NodeWriter, "create" | "mkdir"> {
    this.#tree.given.check(given);
    return {
      create: (name, flags, mode) => this.create(name, flags, mode, given),
      mkdir: (name, mode) => this.mkdir(name, mode, given),
    };
  }

  async create(name: string, flags: number, mode: number, given?: bigint) {
    checkName(name);
    this.#requireFolder();
    const wanted = mode & 0o777;
    const kept = flags & (OPEN.ACCESS | OPEN.APPEND | OPEN.SYNC);
    const made = O.CREAT | O.EXCL | NOFOLLOW | NONBLOCK | NOCTTY;
    // Another process may create or remove the file meanwhile.
    for (let tried = 0;; tried++) {
      try {
        const fd = await this.#tree.open(this.#fd, name, kept | made, wanted);
        try {
          return this.#created(name, fd, wanted, given);
        } catch (error) {
          this.#tree.close(fd);
          throw error;
        }
      } catch (error) {
        const { errno } = error as FileError;
        if (errno !== ERRNO.EEXIST || flags & OPEN.EXCL) throw error;
      }
      try {
        const node = await this.walk(name);
        try {
          return { node, file: await node.open(flags & ~OPEN.CREAT) };
        } catch (error) {
          node.close();
          throw error;
        }
      } catch (error) {
        if ((error as FileError).errno !== ERRNO.ENOENT || tried > 100) throw error;
      }
    }
  }

  async mkdir(name: string, mode: number, given?: bigint): Promise<HostNode> {
    checkName(name);
    await callElsewhere("mkdirat", this.#fd, cbytes(name), mode & FOLDER_MODE);
    const found = await this.walk(name);
    const node = given === undefined ? found : found.#numbered(given);
    // The client has applied its umask; a folder inherits its group's bit.
    if (node.kind === "directory") node.#setExactly(mode & 0o1777, 0o1777);
    return node;
  }

  async symlink(name: string, target: string): Promise<HostNode> {
    checkName(name);
    await callElsewhere("symlinkat", cbytes(target), this.#fd, cbytes(name));
    return await this.walk(name);
  }

  async mknod(name: string, mode: number): Promise<HostNode> {
    checkName(name);
    const type = mode & TYPE_MASK;
    if (type === TYPE_BITS.file || type === 0) {
      const { node, file } = await this.create(name, OPEN.EXCL, mode);
      file.close();
      return node;
    }
    if (type !== TYPE_BITS.fifo && type !== TYPE_BITS.socket) {
      throw new FileError(ERRNO.EPERM, "no device is made here");
    }
    await callElsewhere("mknodat", this.#fd, cbytes(name), type | mode & 0o777, 0);
    return await this.walk(name);
  }

  async link(name: string, target: FileNode): Promise<void> {
    checkName(name);
    const node = this.#ours(target);
    if (node.kind === "directory") throw new FileError(ERRNO.EPERM, "a folder has one name");
    const from = cbytes(procPath(node.#fd));
    await callElsewhere("linkat", -1, from, this.#fd, cbytes(name), AT_SYMLINK_FOLLOW);
  }

  async remove(name: string, kind: "folder" | "other"): Promise<void> {
    checkName(name);
    const flags = kind === "folder" ? AT_REMOVEDIR : 0;
    await callElsewhere("unlinkat", this.#fd, cbytes(name), flags);
  }

  async rename(name: string, to: FileNode, newName: string): Promise<void> {
    checkName(name);
    checkName(newName);
    const folder = this.#ours(to);
    await callElsewhere("renameat2", this.#fd, cbytes(name), folder.#fd, cbytes(newName), 0);
  }

  async change(changes: Changes): Promise<void> {
    await this.#own(() => this.#change(changes));
  }

  /** A change of the file that a client asks for. */
  #own<R>(work: () => Promise<R>): Later<R> {
    const { guards } = this.#tree.options;
    return guards ? guards.own(this.id, () => this.stat(), work) : work();
  }

  async #change({ mode, uid, gid, size, atime, mtime }: Changes): Promise<void> {
    const { owner } = this.#tree;
    if ((uid ?? owner.uid) !== owner.uid || (gid ?? owner.gid) !== owner.gid) {
      throw new FileError(ERRNO.EPERM, "all files keep their owner");
    }
    if (mode !== undefined) {
      if (this.kind === "symlink") throw new FileError(ERRNO.EOPNOTSUPP, "a link has no mode");
      this.#chmod(mode & (this.kind === "directory" ? FOLDER_MODE : FILE_MODE));
    }
    if (size !== undefined) {
      if (this.kind !== "file") throw new FileError(ERRNO.EINVAL, "it is not a file");
      this.#prepareToWrite();
      await callElsewhere("truncate", cbytes(procPath(this.#fd)), size);
    }
    if (atime !== undefined || mtime !== undefined) setHostTimes(this.#fd, atime, mtime);
  }

  async setXattr(name: string, value: Bytes, flags: number): Promise<void> {
    this.#requireXattrs();
    if (!isOwnXattr(name)) throw new FileError(ERRNO.EOPNOTSUPP, "only attributes of user.*");
    const path = cbytes(procPath(this.#fd));
    await callElsewhere("setxattr", path, cbytes(name), value, value.length, flags);
  }

  async removeXattr(name: string): Promise<void> {
    this.#requireXattrs();
    if (!isOwnXattr(name)) throw new FileError(ERRNO.EOPNOTSUPP, "only attributes of user.*");
    await callElsewhere("removexattr", cbytes(procPath(this.#fd)), cbytes(name));
  }

  #requireFolder(): void {
    if (this.kind !== "directory") throw new FileError(ERRNO.ENOTDIR, "it is not a folder");
  }

  #requireXattrs(): void {
    if (this.kind !== "file" && this.kind !== "directory") {
      throw new FileError(ERRNO.EOPNOTSUPP, "it has no attributes");
    }
  }

  /** Clears setuid and setgid, as the kernel does for writes by other users: for root's writes it does not. */
  #prepareToWrite(): void {
    if (!this.#tree.writable) throw readOnly();
    const { mode } = statDescriptor(this.#fd);
    if (mode & SET_ID) this.#chmod(mode & FILE_MODE);
  }

  #entry(name: string, fd: number): HostNode {
    try {
      const stat = statDescriptor(fd);
      if (!this.#shows(name, kindOf(stat.mode))) throw new FileError(ERRNO.ENOENT, name);
      return new HostNode(this.#tree, fd, stat, this.#inside(name));
    } catch (error) {
      this.#tree.close(fd);
      throw error;
    }
  }

  #inside(name: string): string {
    return this.#path === "" ? name : `${this.#path}/${name}`;
  }

  /** Whether an entry is listed: in a read-only export only files, folders and links are. */
  #shows(name: string, kind: NodeKind): boolean {
    if (kind === "special" && !this.#tree.writable) return false;
    return this.#tree.shows(this.#inside(name), kind === "directory");
  }

  /** This node with another number; it takes over the descriptor. */
  #numbered(given: bigint): HostNode {
    const stat = statDescriptor(this.#fd);
    this.#tree.give(stat.dev, stat.ino, given);
    return new HostNode(this.#tree, this.#fd, stat, this.#path);
  }

  #created(name: string, fd: number, mode: number, given?: bigint) {
    if (given !== undefined) {
      const { dev, ino } = statDescriptor(fd);
      this.#tree.give(dev, ino, given);
    }
    const node = this.#entry(name, this.#tree.openHere(-1, procPath(fd), PATH));
    node.#setExactly(mode, 0o777);
    return { node, file: new HostFile(this.#tree, fd, node.id) };
  }

  /** Sets the bits of `mask` exactly: the process's umask may have cleared some. */
  #setExactly(mode: number, mask: number): void {
    const { mode: now } = statDescriptor(this.#fd);
    if ((now & mask) !== mode) this.#chmod(now & 0o7777 & ~mask | mode);
  }

  #chmod(mode: number): void {
    callHere("fchmodat", -1, cbytes(procPath(this.#fd)), mode);
  }

  /** Refuses a node of another export: a read-only file must not get a name in a writable export. */
  #ours(node: FileNode): HostNode {
    if (node instanceof HostNode && node.#tree === this.#tree) return node;
    throw new FileError(ERRNO.EXDEV, "it is of another export");
  }
}

/**
 * A folder of this machine and everything below it. Throws the system's error where `root` is not a folder. The
 * caller closes the node. Linux only.
 */
export function hostFolder(root: string, options: HostOptions = {}): HostNode {
  const tree = new HostTree(options);
  const fd = tree.openHere(-1, Deno.realPathSync(root), PATH | DIRECTORY | NOFOLLOW);
  return new HostNode(tree, fd, statDescriptor(fd), "");
}
