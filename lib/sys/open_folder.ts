/**
 * A folder whose entries are reached by its descriptor: with many entries, resolving each path from the root
 * takes longer than the work on the entries.
 */
import { SystemError } from "./errno.ts";
import { close, open } from "./fd.ts";
import { type FileStat, O, tryLstat } from "./files.ts";
import { cstring, errno, isForeignErrno, libc } from "./libc.ts";

export class OpenFolder implements Disposable {
  #path = "";
  #fd: number | undefined;

  /** Chooses the folder and closes the one before. The folder is opened at its first use. */
  at(path: string): this {
    if (path === this.#path) return this;
    this.close();
    this.#path = path;
    return this;
  }

  /** Like lstat(2); undefined where there is no such entry. */
  tryLstat(name: string): FileStat | undefined {
    return tryLstat(name, this.#open());
  }

  /** Like lstat(2); throws ENOENT where there is no such entry. */
  lstat(name: string): FileStat {
    const stat = this.tryLstat(name);
    if (!stat) throw new SystemError(2, "statx", `${this.#path}/${name}`);
    return stat;
  }

  /** Opens an entry, close-on-exec. The caller closes it. */
  open(name: string, flags: number, mode = 0): number {
    const folder = this.#open();
    while (true) {
      const opened = libc().openat(folder, cstring(name), flags | O.CLOEXEC, mode);
      if (opened >= 0) return opened;
      const code = errno[0];
      if (!isForeignErrno(code)) throw new SystemError(code, "open", `${this.#path}/${name}`);
    }
  }

  /**
   * Closes the descriptor; a later use opens the folder again. Nested folders could exceed the number of
   * descriptors.
   */
  close(): void {
    if (this.#fd !== undefined) close(this.#fd);
    this.#fd = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #open(): number {
    return this.#fd ??= open(this.#path, O.RDONLY | O.DIRECTORY);
  }
}
