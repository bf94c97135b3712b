/** One file of this machine as an export: a read-only folder with that file alone. */
import { basename, dirname } from "../../base/path.ts";
import { hostFolder } from "./host_node.ts";
import type { HostOptions } from "./host_tree.ts";
import {
  ERRNO,
  FileError,
  type FileNode,
  type FolderEntry,
  type NodeStat,
  type OpenFile,
  TYPE_BITS,
} from "./node.ts";

/** The root of the export. Nothing is made or renamed in it: the file's own folder is not shown. */
export class SingleFileRoot implements FileNode {
  readonly kind = "directory";
  readonly id: bigint;
  #folder: FileNode;
  #real: string;
  #shown: string;

  /** The folder that has the file. */
  get folder(): FileNode {
    return this.#folder;
  }

  constructor(folder: FileNode, real: string, shown: string) {
    this.#folder = folder;
    this.#real = real;
    this.#shown = shown;
    this.id = folder.id;
  }

  async stat(): Promise<NodeStat> {
    const stat = await this.#folder.stat();
    return { ...stat, mode: TYPE_BITS.directory | 0o555, nlink: 2, size: 0, blocks: 0 };
  }

  /** Looked up each time: an editor puts a new file in the place of the old one. */
  async walk(name: string): Promise<FileNode> {
    if (name !== this.#shown) throw new FileError(ERRNO.ENOENT, name);
    const node = await this.#folder.walk(this.#real);
    if (node.kind === "file") return node;
    node.close();
    throw new FileError(ERRNO.ENOENT, "it is no file any more");
  }

  open(): OpenFile {
    throw new FileError(ERRNO.EISDIR, "it is a folder");
  }

  readlink(): string {
    throw new FileError(ERRNO.EINVAL, "it is not a link");
  }

  space() {
    if (!this.#folder.space) throw new FileError(ERRNO.ENOSYS);
    return this.#folder.space();
  }

  list() {
    const entry = async (): Promise<FolderEntry[]> => {
      const node = await this.walk(this.#shown);
      node.close();
      return [{ name: this.#shown, kind: "file", id: node.id, next: 1n }];
    };
    return {
      read: (offset: bigint) => offset === 0n ? entry().catch((): FolderEntry[] => []) : [],
      close() {},
    };
  }

  close(): void {
    this.#folder.close();
  }
}

/**
 * The file at `path` as the only entry, `shown`, of a folder. Throws the system's error where there is none. The
 * caller closes the node. Linux only.
 */
export function hostSingleFile(path: string, shown: string, options: HostOptions = {}): FileNode {
  const real = Deno.realPathSync(path);
  return new SingleFileRoot(hostFolder(dirname(real), options), basename(real), shown);
}
