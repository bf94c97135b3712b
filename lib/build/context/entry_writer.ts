/** What COPY gives the entries that it makes: owner, mode, attributes. */
import { chmod, lchown, mknod, readlink, setTimes, symlink } from "../../sys/files.ts";
import { readXattrs, setXattr } from "../../sys/xattr.ts";
import { parseChmod } from "./chmod.ts";
import type { FileOptions } from "./copy_files.ts";
import { isCopied, type TreeEntry } from "./tree.ts";

export class EntryWriter {
  #owner: FileOptions["owner"];
  #mode: ((mode: number, directory: boolean) => number) | undefined;

  constructor({ owner, chmod }: FileOptions) {
    this.#owner = owner;
    this.#mode = chmod === undefined ? undefined : parseChmod(chmod);
  }

  /** Makes a link or device; the path must be free. */
  make(entry: TreeEntry, host: string): void {
    const { stat, kind } = entry;
    if (kind === "symlink") {
      symlink(readlink(entry.host), host);
      this.#own(entry, host);
    } else {
      mknod(host, stat.mode, stat.rdevMajor, stat.rdevMinor);
      this.attributes(entry, host);
    }
    setTimes(host, stat.mtime, stat.mtimeNs);
  }

  /** Sets owner, mode and attributes. Owner first: chown clears setuid bits and capabilities. */
  attributes(entry: TreeEntry, host: string): void {
    this.#own(entry, host);
    const mode = entry.stat.mode & 0o7777;
    chmod(host, this.#mode?.(mode, entry.kind === "directory") ?? mode);
    for (const [name, value] of readXattrs(entry.host)) {
      if (isCopied(name)) setXattr(host, name, value);
    }
  }

  #own({ stat }: TreeEntry, host: string): void {
    const { uid, gid } = this.#owner ?? stat;
    lchown(host, uid, gid);
  }
}
