/** Files by their paths, for systems without calls that start at an open folder. Read-only. */
import type { ConfinedFolder } from "./folder.ts";
import { hostFiles } from "./host_files.ts";
import {
  asksToWrite,
  checkName,
  type FileNode,
  type FolderEntry,
  type OpenFile,
  type OpenFolder,
  readOnly,
} from "./node.ts";
import { ERRNO, FileError, type NodeStat } from "./stat.ts";

export class PathNode implements FileNode {
  readonly kind;
  readonly id: bigint;

  constructor(readonly folder: ConfinedFolder, readonly path: readonly string[]) {
    const { kind, ino } = folder.stat(path);
    this.kind = kind;
    this.id = BigInt(ino);
  }

  close(): void {}

  stat(): NodeStat {
    const { mode, nlink, size, mtime, mtimeNs } = this.folder.stat(this.path);
    const time = { s: mtime, ns: mtimeNs };
    const blocks = Math.ceil(size / 512);
    return { mode, uid: 0, gid: 0, nlink, size, blocks, atime: time, mtime: time, ctime: time };
  }

  walk(name: string): PathNode {
    checkName(name);
    return new PathNode(this.folder, [...this.path, name]);
  }

  readlink(): string {
    return this.folder.readlink(this.path);
  }

  open(flags: number): OpenFile {
    if (asksToWrite(flags)) throw readOnly();
    const { kind } = this.folder.stat(this.path);
    if (kind === "symlink") throw new FileError(ERRNO.ELOOP, "links are not followed");
    const { fd } = this.folder.open(this.path);
    return {
      read: (offset, into) => hostFiles().read(fd, into, offset),
      close: () => hostFiles().close(fd),
    };
  }

  list(): OpenFolder {
    const entries = this.folder.list(this.path).map(({ name, stat }, index): FolderEntry => ({
      name,
      kind: stat.kind,
      id: BigInt(stat.ino),
      next: BigInt(index + 1),
    }));
    return { read: (offset) => entries.slice(Number(offset)), close() {} };
  }
}
