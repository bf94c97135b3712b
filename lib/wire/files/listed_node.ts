/** Files known from a listing; their contents come from elsewhere. Listed files do not change. */
import { encodeRaw } from "../../base/raw_string.ts";
import {
  asksToWrite,
  type FileNode,
  type FolderEntry,
  type OpenFile,
  type OpenFolder,
  readOnly,
  TYPE_BITS,
} from "./node.ts";
import { ERRNO, FileError, type Later, type NodeStat } from "./stat.ts";

/** A listed file, folder or link; its owner is root. */
export interface Listed {
  kind: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  /** Target of a link. */
  link?: string;
}

export interface ListedOptions {
  /** Unique number. */
  id: bigint;
  /** Present for a file. */
  open?: () => Later<OpenFile>;
}

export class ListedNode implements FileNode {
  /** Entries of a folder, by name. */
  readonly children = new Map<string, ListedNode>();

  constructor(readonly listed: Listed, readonly options: ListedOptions) {}

  get kind() {
    return this.listed.kind;
  }

  get id() {
    return this.options.id;
  }

  close(): void {}

  stat(): NodeStat {
    const { kind, mode, link, mtime, mtimeNs } = this.listed;
    const size = link === undefined ? this.listed.size : encodeRaw(link).length;
    const time = { s: mtime, ns: mtimeNs };
    return {
      mode: TYPE_BITS[kind] | mode,
      uid: 0,
      gid: 0,
      nlink: kind === "directory" ? 2 : 1,
      size,
      blocks: Math.ceil(size / 512),
      atime: time,
      mtime: time,
      ctime: time,
    };
  }

  walk(name: string): ListedNode {
    if (this.kind !== "directory") throw new FileError(ERRNO.ENOTDIR, "it is not a folder");
    const child = this.children.get(name);
    if (!child) throw new FileError(ERRNO.ENOENT, "it is not there");
    return child;
  }

  open(flags: number): Later<OpenFile> {
    if (asksToWrite(flags)) throw readOnly();
    if (this.kind === "symlink") throw new FileError(ERRNO.ELOOP, "links are not followed");
    if (!this.options.open) throw new FileError(ERRNO.EISDIR, "it is not a file");
    return this.options.open();
  }

  list(): OpenFolder {
    if (this.kind !== "directory") throw new FileError(ERRNO.ENOTDIR, "it is not a folder");
    let entries: FolderEntry[] | undefined;
    const all = () =>
      Array.from(this.children, ([name, { kind, id }], index) => ({
        name,
        kind,
        id,
        next: BigInt(index + 1),
      }));
    return { read: (offset) => (entries ??= all()).slice(Number(offset)), close() {} };
  }

  readlink(): string {
    const { link } = this.listed;
    if (link === undefined) throw new FileError(ERRNO.EINVAL, "it is not a link");
    return link;
  }
}
