/**
 * The root of a mount: a folder whose only entry is what the caller exports. A workload gets that entry, not the
 * root: an engine whose mounts are not the server's has the folder below in the mount's place, where the entry is a
 * link to itself, and refuses, where it would else give the workload an empty folder.
 */
import {
  ERRNO,
  FileError,
  type FileNode,
  type FolderEntry,
  type Later,
  type NodeStat,
  TYPE_BITS,
} from "../../wire/files/node.ts";

/** The name of the entry. */
export const TREE = "tree";

/** No file of the caller's has it, for a number of a file is never near 2^64. */
const OWN_ID = 0xffff_ffff_ffff_fff0n;

export class TreeRoot implements FileNode {
  readonly kind = "directory";
  readonly id = OWN_ID;
  #tree: FileNode;
  #another: () => Later<FileNode>;

  /** `tree` is what the caller exports, and `another` gives one more node of it. Closing the root closes `tree`. */
  constructor(tree: FileNode, another: () => Later<FileNode>) {
    this.#tree = tree;
    this.#another = another;
  }

  async stat(): Promise<NodeStat> {
    const stat = await this.#tree.stat();
    return { ...stat, mode: TYPE_BITS.directory | 0o555, nlink: 2, size: 0, blocks: 0 };
  }

  walk(name: string): Later<FileNode> {
    if (name !== TREE) throw new FileError(ERRNO.ENOENT, name);
    return this.#another();
  }

  open(): never {
    throw new FileError(ERRNO.EISDIR, "it is a folder");
  }

  readlink(): never {
    throw new FileError(ERRNO.EINVAL, "it is not a link");
  }

  space() {
    if (!this.#tree.space) throw new FileError(ERRNO.ENOSYS);
    return this.#tree.space();
  }

  list() {
    const entry: FolderEntry = { name: TREE, kind: "directory", id: this.#tree.id, next: 1n };
    return { read: (offset: bigint) => offset === 0n ? [entry] : [], close() {} };
  }

  close(): void {
    this.#tree.close();
  }
}
