/**
 * Unpacks an archive into a folder in the root of a workload, with its owners. No member leads out of the folder,
 * whatever links there are, also while somebody swaps them. A file takes another's place once it is whole. Devices
 * are refused: the kernel would ask nobody for them.
 */
import { SvcError } from "../../../base/errors.ts";
import { archiveError, type TarHeader } from "../../../oci/tar.ts";
import type { TarHandler } from "../../../oci/tar_parser.ts";
import { applyXattrs } from "../../../snapshot/metadata.ts";
import { hasCode } from "../../../sys/errno.ts";
import { chmodFd, chownFd, close, open, skip, truncate, writeAll } from "../../../sys/fd.ts";
import {
  chmod,
  lchown,
  link,
  mkdir,
  mknod,
  O,
  rename,
  S_IFDIR,
  S_IFIFO,
  S_IFMT,
  setTimes,
  setTimesFd,
  symlink,
  tryLstat,
  unlink,
} from "../../../sys/files.ts";
import { openBelow, RESOLVE } from "../../../sys/rooted_file.ts";
import { behind, DEEPEST, entryOf, find, pathError, refuseKernels } from "./place.ts";

/** A file that is being written; the temporary name is its own where nothing was there before. */
interface Pending {
  fd: number;
  folder: number;
  temporary: string;
  name: string;
  header: TarHeader;
}

/** Folders of one archive: some 50 MB of memory. */
const MOST_FOLDERS = 250_000;

const isFolder = (mode: number) => (mode & S_IFMT) === S_IFDIR;

export class Unpacker implements TarHandler, Disposable {
  #path: string;
  #target: number;
  #resolve: bigint;
  /** The folder of the last member: most have the same. */
  #folder: { path: string; fd: number } | undefined;
  #file: Pending | undefined;
  #times: Pick<TarHeader, "path" | "mtime" | "mtimeNs">[] = [];

  /** Throws `not_found` where there is no such folder. */
  constructor(root: number, path: string) {
    this.#path = path;
    const found = find(root, path, { follow: true });
    if (!found) throw new SvcError("not_found", `Cannot copy to ${path}: no such folder`);
    this.#target = found.fd;
    try {
      if (!isFolder(found.stat.mode)) {
        throw new SvcError("argument_invalid", `Cannot copy to ${path}: it is no folder`);
      }
      refuseKernels(found.fd, `Cannot copy to ${path}`);
      using top = find(root, "/")!;
      const same = top.stat.ino === found.stat.ino && top.stat.devMajor === found.stat.devMajor &&
        top.stat.devMinor === found.stat.devMinor;
      // In the root itself absolute links lead to where the workload sees them.
      this.#resolve = (same ? RESOLVE.IN_ROOT : RESOLVE.BENEATH) | RESOLVE.NO_MAGICLINKS;
    } catch (error) {
      found[Symbol.dispose]();
      throw error;
    }
  }

  entry(header: TarHeader): void {
    const parts = this.#parts(header.path, header);
    const name = parts.pop();
    // The folder itself stays as it is.
    if (name === undefined) return;
    try {
      const folder = this.#open(parts);
      this.#make(folder, name, [...parts, name], header);
    } catch (error) {
      throw pathError(this.#attempted(header), error);
    }
  }

  data(chunk: Uint8Array): void {
    if (!this.#file) return;
    try {
      writeAll(this.#file.fd, chunk);
    } catch (error) {
      throw pathError(this.#attempted(this.#file.header), error);
    }
  }

  hole(length: number): void {
    if (this.#file) skip(this.#file.fd, length);
  }

  end(): void {
    const file = this.#file;
    if (!file) return;
    const { fd, folder, temporary, name, header } = file;
    truncate(fd, header.size);
    chownFd(fd, header.uid, header.gid, name);
    // After the owner, whose change takes setuid and capabilities away.
    chmodFd(fd, header.mode & 0o7777, name);
    applyXattrs(fd, header.xattrs);
    setTimesFd(fd, header.mtime, header.mtimeNs, name);
    try {
      if (temporary !== name) rename(behind(folder, temporary), behind(folder, name));
    } catch (error) {
      throw pathError(this.#attempted(header), error);
    }
    this.#file = undefined;
    close(fd);
    close(folder);
  }

  /** Sets the times of folders, which every new entry has changed. */
  finish(): void {
    for (const { path, mtime, mtimeNs } of this.#times.reverse()) {
      const folder = this.#open(path.split("/"));
      setTimes(behind(folder, "."), mtime, mtimeNs);
    }
  }

  [Symbol.dispose](): void {
    if (this.#file) {
      const { fd, folder, temporary } = this.#file;
      close(fd);
      this.#remove(folder, temporary);
    }
    this.#file = undefined;
    if (this.#folder) close(this.#folder.fd);
    close(this.#target);
  }

  #attempted({ path }: TarHeader): string {
    return `Cannot copy ${JSON.stringify(path)} to ${this.#path}`;
  }

  /** Throws where a name leads upwards. */
  #parts(path: string, header: TarHeader): string[] {
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    if (parts.includes("..")) {
      throw archiveError(`${JSON.stringify(header.path)} leads out of the folder`);
    }
    if (parts.length > DEEPEST) {
      throw new SvcError(
        "too_large",
        `${this.#attempted(header)}: more than ${DEEPEST} folders are in each other`,
      );
    }
    return parts;
  }

  /** The folder of that path, made where it is missing; open until the next call. */
  #open(parts: readonly string[]): number {
    const path = parts.join("/");
    if (this.#folder?.path === path) return this.#folder.fd;
    if (this.#folder) close(this.#folder.fd);
    this.#folder = undefined;
    const fd = this.#opened(path) ?? this.#made(parts);
    try {
      refuseKernels(fd, `Cannot copy to ${this.#path}/${path}`);
    } catch (error) {
      close(fd);
      throw error;
    }
    this.#folder = { path, fd };
    return fd;
  }

  #opened(path: string): number | undefined {
    try {
      return openBelow(this.#target, path || ".", O.PATH | O.DIRECTORY, this.#resolve);
    } catch (error) {
      if (hasCode(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  #made(parts: readonly string[]): number {
    for (let count = 1; count <= parts.length; count++) {
      const path = parts.slice(0, count).join("/");
      const there = this.#opened(path);
      if (there !== undefined) {
        if (count === parts.length) return there;
        close(there);
        continue;
      }
      const above = this.#opened(parts.slice(0, count - 1).join("/"));
      if (above === undefined) break;
      try {
        mkdir(behind(above, parts[count - 1]), 0o755);
      } catch (error) {
        // Somebody else has made it, or it is a link to nothing.
        if (!hasCode(error, "EEXIST")) throw error;
      } finally {
        close(above);
      }
    }
    const made = this.#opened(parts.join("/"));
    if (made !== undefined) return made;
    throw new SvcError(
      "conflict",
      `Cannot copy to ${this.#path}/${parts.join("/")}: no such folder`,
    );
  }

  #make(folder: number, name: string, parts: string[], header: TarHeader): void {
    const there = tryLstat(name, folder);
    if (header.type === "directory") return this.#makeFolder(folder, name, parts, header);
    if (header.type === "char" || header.type === "block") {
      throw new SvcError("denied", `${this.#attempted(header)}: it is a device`, {
        help: "leave it out of the archive; devices are given to a workload by its spec",
      });
    }
    if (there && isFolder(there.mode)) {
      throw new SvcError("conflict", `${this.#attempted(header)}: a folder is there`, {
        help: "remove the folder first, or copy to another path",
      });
    }
    if (header.type === "file") {
      // Where nothing is there, no name is in between: with many files that is the most of the work.
      const temporary = there ? `.svc-${crypto.randomUUID()}` : name;
      const flags = O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW;
      const fd = open(behind(folder, temporary), flags, 0o600);
      // A descriptor of its own: the folder's goes with the next member.
      const kept = openBelow(folder, ".", O.PATH | O.DIRECTORY, RESOLVE.BENEATH);
      this.#file = { fd, folder: kept, temporary, name, header };
      return;
    }
    const path = behind(folder, name);
    if (header.type === "hardlink") return this.#link(path, header);
    if (there) unlink(path);
    if (header.type === "symlink") symlink(header.linkpath, path);
    else {
      mknod(path, S_IFIFO | 0o600);
      using made = entryOf(folder, name);
      // By its descriptor: a mode would be set behind a link that took its place.
      chmod(behind(made.fd), header.mode & 0o7777);
    }
    lchown(path, header.uid, header.gid);
    setTimes(path, header.mtime, header.mtimeNs);
  }

  #makeFolder(folder: number, name: string, parts: string[], header: TarHeader): void {
    const path = parts.join("/");
    // Their times are kept until the end.
    if (this.#times.length === MOST_FOLDERS) {
      throw new SvcError(
        "too_large",
        `${this.#attempted(header)}: the archive has too many folders`,
      );
    }
    let fd = this.#opened(path);
    if (fd === undefined) {
      const there = tryLstat(name, folder);
      if (there) {
        throw new SvcError("conflict", `${this.#attempted(header)}: it is no folder there`, {
          help: "remove what is there first, or copy to another path",
        });
      }
      mkdir(behind(folder, name), 0o700);
      fd = this.#opened(path);
    }
    if (fd === undefined) throw new SvcError("conflict", `${this.#attempted(header)}: it is gone`);
    try {
      refuseKernels(fd, this.#attempted(header));
      const itself = behind(fd, ".");
      lchown(itself, header.uid, header.gid);
      chmod(itself, header.mode & 0o7777);
      applyXattrs(fd, header.xattrs);
    } finally {
      close(fd);
    }
    this.#times.push({ path, mtime: header.mtime, mtimeNs: header.mtimeNs });
  }

  #link(path: string, header: TarHeader): void {
    const parts = this.#parts(header.linkpath, header);
    const name = parts.pop();
    const bad = (what: string) =>
      archiveError(`hard link ${JSON.stringify(header.path)} to ${header.linkpath} ${what}`);
    if (name === undefined) throw bad("names the folder itself");
    const folder = this.#opened(parts.join("/"));
    if (folder === undefined) throw bad("names what is not there");
    try {
      const there = tryLstat(name, folder);
      if (!there) throw bad("names what is not there");
      if (isFolder(there.mode)) throw bad("names a folder");
      const temporary = `${path.slice(0, path.lastIndexOf("/"))}/.svc-${crypto.randomUUID()}`;
      link(behind(folder, name), temporary);
      try {
        rename(temporary, path);
      } finally {
        // It is still there where both names are the same file.
        unlinkIfThere(temporary);
      }
    } finally {
      close(folder);
    }
  }

  #remove(folder: number, name: string): void {
    try {
      unlinkIfThere(behind(folder, name));
    } finally {
      close(folder);
    }
  }
}

function unlinkIfThere(path: string): void {
  try {
    unlink(path);
  } catch (error) {
    if (!hasCode(error, "ENOENT")) throw error;
  }
}
