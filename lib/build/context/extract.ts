/**
 * Unpacks an archive into a folder: a build context, or the archive of an ADD. Whatever names and links the
 * archive holds, nothing is written outside the folder.
 */
import { Buffer } from "node:buffer";
import { createHash, type Hash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import type { TarHeader } from "../../oci/tar.ts";
import type { TarHandler } from "../../oci/tar_parser.ts";
import { removeTreeSync } from "../../sys/directory.ts";
import { chmodFd, close, open, skip, truncate, writeAll } from "../../sys/fd.ts";
import {
  chmod,
  type FileStat,
  lchown,
  link,
  mkdir,
  mknod,
  O,
  S_IFBLK,
  S_IFCHR,
  S_IFIFO,
  S_IFLNK,
  S_IFMT,
  setTimes,
  setTimesFd,
  symlink,
  tryLstat,
  unlink,
} from "../../sys/files.ts";
import { setXattr } from "../../sys/xattr.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";

export interface ExtractOptions {
  /** An existing folder. Names begin there, and all links are resolved with it as "/". */
  root: string;
  /** Owner of the entries: as the archive says, root, or the given one. */
  owners: "archive" | "root" | { uid: number; gid: number };
  /**
   * True: absolute names, ".." and devices are refused. False: only relative names that lead out of `root`
   * are refused, and devices are made.
   */
  strict: boolean;
  /** Receives the sha256 of each file's content by its path inside `root`. */
  digests?: Map<string, string>;
}

/** Most folders above an entry. Each of them is checked for each entry; no project has that many. */
export const MAX_DEPTH = 256;
/** Bytes of one part of a path, as on every file system here. */
const MAX_PART = 255;

interface OpenFile {
  fd: number;
  header: TarHeader;
  inside: string;
  hash?: Hash;
  /** Length so far. It is set at the end, since a file may end in a hole. */
  length: number;
}

const ZEROS = new Uint8Array(65536);
/** Bytes of a hole that are hashed while the archive is unpacked, at most. */
const MAX_HASHED_HOLE = 16 << 20;

/** Feed it to a `TarParser`. Call `finish` after the last byte, or `abandon` where the archive broke off. */
export class Extractor implements TarHandler {
  #options: ExtractOptions;
  #file: OpenFile | undefined;
  /** Headers of folders; their times are set when nothing more is written into them. */
  #folders = new Map<string, TarHeader>();

  constructor(options: ExtractOptions) {
    this.#options = options;
  }

  entry(header: TarHeader): void {
    const path = this.#name(header);
    if (path === "") return;
    const { root, strict } = this.#options;
    const slash = path.lastIndexOf("/");
    const above = slash < 0 ? "" : path.slice(0, slash);
    const parent = locate(root, above, { confined: !strict });
    this.#makeParents(parent.inside);
    const name = path.slice(slash + 1);
    const host = `${parent.host}/${name}`;
    const inside = parent.inside === "" ? name : `${parent.inside}/${name}`;
    if (header.type === "directory") return this.#directory(header, host);
    if (tryLstat(host)) {
      if (isDirectory(host)) removeTreeSync(host);
      else unlink(host);
    }
    this.#options.digests?.delete(inside);
    switch (header.type) {
      case "file":
        this.#file = {
          fd: open(host, O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW, 0o600),
          header,
          inside,
          hash: this.#options.digests && createHash("sha256"),
          length: 0,
        };
        return;
      case "hardlink":
        return this.#hardlink(header, host, inside);
      case "symlink":
        symlink(header.linkpath, host);
        this.#own(host, header);
        return setTimes(host, header.mtime, header.mtimeNs);
      default:
        return this.#device(header, host);
    }
  }

  data(chunk: Uint8Array): void {
    const file = this.#file;
    if (!file) return;
    file.hash?.update(chunk);
    writeAll(file.fd, chunk, file.header.path);
    file.length += chunk.length;
  }

  hole(length: number): void {
    const file = this.#file;
    if (!file) return;
    skip(file.fd, length, file.header.path);
    file.length += length;
    if (!file.hash) return;
    // Hashing a large hole takes time for which the archive holds no bytes. Whoever needs this digest reads
    // the file.
    if (length > MAX_HASHED_HOLE) return void (file.hash = undefined);
    for (let left = length; left > 0; left -= ZEROS.length) {
      file.hash.update(left < ZEROS.length ? ZEROS.subarray(0, left) : ZEROS);
    }
  }

  end(): void {
    const file = this.#file;
    if (!file) return;
    this.#file = undefined;
    const { fd, header } = file;
    try {
      truncate(fd, file.length, header.path);
      const host = `${this.#options.root}/${file.inside}`;
      this.#own(host, header);
      chmodFd(fd, header.mode & 0o7777, header.path);
      this.#attributes(host, header);
      setTimesFd(fd, header.mtime, header.mtimeNs, header.path);
    } finally {
      close(fd);
    }
    if (file.hash) this.#options.digests!.set(file.inside, file.hash.digest("hex"));
  }

  /** Sets the times of folders. */
  finish(): void {
    for (const [host, header] of this.#folders) {
      if (isDirectory(host)) setTimes(host, header.mtime, header.mtimeNs);
    }
  }

  /** Closes what a broken archive left open. */
  abandon(): void {
    if (this.#file) close(this.#file.fd);
    this.#file = undefined;
  }

  /** The entry's path inside the root, "" for the root itself. */
  #name(header: TarHeader): string {
    const parts = header.path.split("/").filter((part) => part !== "" && part !== ".");
    if (this.#options.strict && (header.path.startsWith("/") || parts.includes(".."))) {
      throw new SvcError(
        "context_invalid",
        `Cannot read the build context: the archive's entry ${
          JSON.stringify(header.path)
        } leads out of it`,
        { help: "send paths relative to the context's root" },
      );
    }
    const kept: string[] = [];
    for (const part of parts) {
      if (part !== "..") kept.push(part);
      else if (kept.pop() === undefined && !header.path.startsWith("/")) {
        throw new SvcError(
          "archive_invalid",
          `Cannot unpack ${JSON.stringify(header.path)}: it leads out of where it is unpacked`,
        );
      }
    }
    if (kept.length > MAX_DEPTH || kept.some((part) => Buffer.byteLength(part) > MAX_PART)) {
      throw new SvcError(
        this.#options.strict ? "context_invalid" : "archive_invalid",
        `Cannot unpack ${JSON.stringify(header.path.slice(0, 100))}…: ${
          kept.length > MAX_DEPTH
            ? `it is more than ${MAX_DEPTH} folders deep`
            : `a part of its path has more than ${MAX_PART} bytes`
        }`,
      );
    }
    return kept.join("/");
  }

  #makeParents(inside: string): void {
    let host = this.#options.root;
    for (const part of inside === "" ? [] : inside.split("/")) {
      host += `/${part}`;
      const stat = tryLstat(host);
      if (stat && isDirectory(host)) continue;
      if (stat && !this.#options.strict) {
        const shown = JSON.stringify(host.slice(this.#options.root.length + 1));
        throw new SvcError("archive_invalid", `Cannot unpack below ${shown}: it is not a folder`);
      }
      if (stat) unlink(host);
      mkdir(host, 0o755);
      chmod(host, 0o755);
    }
  }

  #directory(header: TarHeader, host: string): void {
    if (!isDirectory(host)) {
      if (tryLstat(host)) unlink(host);
      mkdir(host, 0o755);
    }
    this.#own(host, header);
    chmod(host, header.mode & 0o7777);
    this.#attributes(host, header);
    this.#folders.set(host, header);
  }

  #hardlink(header: TarHeader, host: string, inside: string): void {
    const name = this.#name({ ...header, path: header.linkpath });
    const { strict } = this.#options;
    const target = locate(this.#options.root, name, { follow: false, confined: !strict });
    const stat = tryLstat(target.host);
    if (!stat || isDirectory(target.host)) {
      throw new SvcError(
        strict ? "context_invalid" : "archive_invalid",
        `Cannot unpack ${JSON.stringify(header.path)}: it is a link to ${
          JSON.stringify(header.linkpath)
        }, which is not in the archive before it`,
      );
    }
    link(target.host, host);
    if (!strict) this.#relabel(header, host, stat);
    const digest = this.#options.digests?.get(target.inside);
    if (digest !== undefined) this.#options.digests!.set(inside, digest);
  }

  /** The entry of a hard link also sets owner, mode and time of the file. */
  #relabel(header: TarHeader, host: string, { mode }: FileStat): void {
    this.#own(host, header);
    if ((mode & S_IFMT) !== S_IFLNK) chmod(host, header.mode & 0o7777);
    setTimes(host, header.mtime, header.mtimeNs);
  }

  #device(header: TarHeader, host: string): void {
    if (this.#options.strict) {
      throw new SvcError(
        "context_invalid",
        `Cannot read the build context: ${
          JSON.stringify(header.path)
        } is a ${header.type} device, and only files, folders and links can be in one`,
        { help: "leave it out with .dockerignore" },
      );
    }
    const type = header.type === "fifo" ? S_IFIFO : header.type === "char" ? S_IFCHR : S_IFBLK;
    mknod(host, type | (header.mode & 0o7777), header.devMajor, header.devMinor);
    this.#own(host, header);
    chmod(host, header.mode & 0o7777);
    setTimes(host, header.mtime, header.mtimeNs);
  }

  #own(host: string, header: TarHeader): void {
    const { owners } = this.#options;
    if (owners === "root") return;
    const { uid, gid } = owners === "archive" ? header : owners;
    lchown(host, uid, gid);
  }

  #attributes(host: string, header: TarHeader): void {
    for (const [name, value] of header.xattrs) {
      // The archive's origin is not trusted: other attributes could affect the host.
      if (name.startsWith("user.") || name === "security.capability") setXattr(host, name, value);
    }
  }
}
