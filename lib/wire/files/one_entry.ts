/** A read-only folder with one entry: as the root of an export or of a mount it shows nothing beside that. */
import { type FileNode, type FolderEntry, type OpenFolder, TYPE_BITS } from "./node.ts";
import { ERRNO, FileError, type Later, type NodeStat } from "./stat.ts";

export class OneEntry implements FileNode {
  readonly kind = "directory";

  /** `beside`: whose owner, times and space it shows; it is closed with it. `entry` gives a node, to be closed. */
  constructor(
    readonly beside: FileNode,
    readonly id: bigint,
    private readonly name: string,
    private readonly entry: () => Later<FileNode>,
  ) {}

  async stat(): Promise<NodeStat> {
    const stat = await this.beside.stat();
    return { ...stat, mode: TYPE_BITS.directory | 0o555, nlink: 2, size: 0, blocks: 0 };
  }

  async walk(name: string): Promise<FileNode> {
    if (name !== this.name) throw new FileError(ERRNO.ENOENT, name);
    return await this.entry();
  }

  open(): never {
    throw new FileError(ERRNO.EISDIR, "it is a folder");
  }

  readlink(): never {
    throw new FileError(ERRNO.EINVAL, "it is not a link");
  }

  space() {
    if (!this.beside.space) throw new FileError(ERRNO.ENOSYS);
    return this.beside.space();
  }

  list(): OpenFolder {
    const entries = async (): Promise<FolderEntry[]> => {
      const node = await this.entry();
      node.close();
      return [{ name: this.name, kind: node.kind, id: node.id, next: 1n }];
    };
    return {
      read: (offset) => offset === 0n ? entries().catch(() => []) : [],
      close() {},
    };
  }

  close(): void {
    this.beside.close();
  }
}
