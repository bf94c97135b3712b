/**
 * Unpacks a layer into a tree, synchronously, in a Worker. Nothing is written outside the root: each parent
 * folder is resolved component by component, links are followed inside the root only, and files are always
 * created new. White-outs become overlay's marks, or deletions in a plain tree (OCI image layer
 * specification, "Applying Changesets").
 */
import { SvcError } from "../base/errors.ts";
import { archiveError, type TarHeader } from "../oci/tar.ts";
import type { TarHandler } from "../oci/tar_parser.ts";
import { readNames, removeTreeSync } from "../sys/directory.ts";
import { hasCode } from "../sys/errno.ts";
import { chmodFd, chownFd, close, open, skip, truncate, writeAll } from "../sys/fd.ts";
import {
  chmod,
  lchown,
  link,
  lstat,
  mkdir,
  mknod,
  O,
  readlink,
  S_IFBLK,
  S_IFCHR,
  S_IFIFO,
  S_IFLNK,
  S_IFMT,
  setTimes,
  setTimesFd,
  symlink,
  tryLstat,
} from "../sys/files.ts";
import { inUserNamespace } from "../sys/userns.ts";
import { setXattr } from "../sys/xattr.ts";
import {
  type Found,
  isDirectory,
  isOpaque,
  isWhiteout,
  joinPath,
  LowerTree,
  opaqueXattr,
  parentOf,
} from "./lower.ts";
import { applyXattrs, copyFile, copyFolder } from "./metadata.ts";

export interface ApplyTarget {
  /** Folder to write to: overlay's upper, or the whole tree. */
  root: string;
  /** Folders below `root`, topmost first: overlay's lower folders; none for a plain tree. */
  lower: string[];
  /** White-outs become overlay's marks instead of deletions. */
  overlay: boolean;
}

export interface ApplyResult {
  entries: number;
  /** Number of extended attributes that the file system could not hold. */
  skippedXattrs: number;
  /** Number of devices left out in a user namespace, where only the host's root may make them. */
  skippedDevices: number;
}

const WHITEOUT = ".wh.";
const OPAQUE = ".wh..wh..opq";
/** Most links in a path: Linux's limit, with room. */
const MAX_LINKS = 255;
const YES = new Uint8Array([121]);

export class LayerApplier implements TarHandler {
  #root: string;
  #overlay: boolean;
  #lower: LowerTree;
  /** Folder as the archive names it → its path in the tree. */
  #resolved = new Map<string, string>();
  /** Paths that this layer made: white-outs do not remove them. */
  #made = new Set<string>();
  /** Folders of this layer that hide the lower ones. */
  #opaque = new Set<string>();
  /** Times of folders. Set at the end, because writing into a folder changes its time. */
  #times = new Map<string, [number, number]>();
  #file: { fd: number; path: string; header: TarHeader; holes: boolean } | undefined;
  #result: ApplyResult = { entries: 0, skippedXattrs: 0, skippedDevices: 0 };

  constructor(target: ApplyTarget) {
    this.#root = target.root;
    this.#overlay = target.overlay;
    this.#lower = new LowerTree(target.lower, target.overlay);
  }

  entry(header: TarHeader): void {
    this.#result.entries++;
    const parts = header.path.split("/").filter((part) => part !== "" && part !== ".");
    if (parts.includes("..")) {
      throw archiveError(`entry ${JSON.stringify(header.path)} leads out of its root`);
    }
    const base = parts.pop();
    if (base === undefined) return this.#rootEntry(header);
    if (base.startsWith(WHITEOUT)) return this.#mark(parts, base, header);
    const parent = this.#folder(parts, header);
    const path = joinPath(parent, base);
    const full = this.#full(path);
    if (header.type === "hardlink") return this.#hardlink(header, path);
    if (header.type === "file") {
      this.#made.add(path);
      this.#file = { fd: this.#create(path), path: full, header, holes: false };
      return;
    }
    this.#clear(path, header.type === "directory");
    this.#made.add(path);
    switch (header.type) {
      case "directory":
        if (!tryLstat(full)) mkdir(full, 0o700);
        this.#times.set(path, [header.mtime, header.mtimeNs]);
        lchown(full, header.uid, header.gid);
        chmod(full, header.mode);
        this.#result.skippedXattrs += applyXattrs(full, header.xattrs);
        return;
      case "symlink":
        symlink(header.linkpath, full);
        break;
      default:
        if (!this.#node(header, full)) return;
    }
    lchown(full, header.uid, header.gid);
    if (header.type !== "symlink") chmod(full, header.mode);
    this.#result.skippedXattrs += applyXattrs(full, header.xattrs);
    setTimes(full, header.mtime, header.mtimeNs);
  }

  data(chunk: Uint8Array): void {
    if (this.#file) writeAll(this.#file.fd, chunk, this.#file.path);
  }

  hole(length: number): void {
    if (!this.#file) return;
    skip(this.#file.fd, length, this.#file.path);
    this.#file.holes = true;
  }

  end(): void {
    const file = this.#file;
    if (!file) return;
    const { fd, path, header } = file;
    try {
      if (file.holes) truncate(fd, header.size, path);
      // Changing the owner drops setuid and capabilities: owner first, then mode, then attributes.
      chownFd(fd, header.uid, header.gid, path);
      chmodFd(fd, header.mode, path);
      if (header.xattrs.size > 0) {
        this.#result.skippedXattrs += applyXattrs(path, header.xattrs);
      }
      setTimesFd(fd, header.mtime, header.mtimeNs, path);
    } finally {
      this.close();
    }
  }

  /** Sets the folders' times; the layer is complete. */
  finish(): ApplyResult {
    for (const [path, [seconds, nanoseconds]] of this.#times) {
      try {
        setTimes(this.#full(path), seconds, nanoseconds);
      } catch (error) {
        if (!hasCode(error, "ENOENT")) throw error;
      }
    }
    return this.#result;
  }

  /** Closes the file that was being written; to be called after a failure too. */
  close(): void {
    if (this.#file) close(this.#file.fd);
    this.#file = undefined;
  }

  #full(path: string): string {
    return path === "" ? this.#root : `${this.#root}/${path}`;
  }

  #rootEntry(header: TarHeader): void {
    if (header.type !== "directory") throw archiveError("its root is not a folder");
    lchown(this.#root, header.uid, header.gid);
    chmod(this.#root, header.mode);
    applyXattrs(this.#root, header.xattrs);
    this.#times.set("", [header.mtime, header.mtimeNs]);
  }

  /** Makes a node; false where it was left out. */
  #node(header: TarHeader, full: string): boolean {
    const { type, devMajor, devMinor } = header;
    if (type === "char" && devMajor === 0 && devMinor === 0) {
      throw archiveError(`entry ${JSON.stringify(header.path)} is overlay's white-out device`);
    }
    const bits = type === "char" ? S_IFCHR : type === "block" ? S_IFBLK : S_IFIFO;
    try {
      mknod(full, bits | header.mode, devMajor, devMinor);
    } catch (error) {
      if (type === "fifo" || !inUserNamespace() || !hasCode(error, "EPERM")) throw error;
      this.#result.skippedDevices++;
      return false;
    }
    return true;
  }

  /** The lower tree's entry at `path`, unless an opaque folder of this layer hides it. */
  #below(path: string): Found | undefined {
    if (!this.#overlay) return undefined;
    for (let at = parentOf(path); at !== ""; at = parentOf(at)) {
      if (this.#opaque.has(at)) return undefined;
    }
    return this.#lower.lookup(path);
  }

  /** Makes room at `path`: removes what is there, unless both are folders. */
  #clear(path: string, forFolder: boolean): void {
    const full = this.#full(path);
    const there = tryLstat(full);
    if (!there) return;
    const whiteout = this.#overlay && isWhiteout(there);
    if (forFolder && isDirectory(there)) return;
    removeTreeSync(full);
    // A replaced folder or link changes what paths below it resolve to.
    if (isDirectory(there) || (there.mode & S_IFMT) === S_IFLNK) this.#forget(path);
    if (whiteout && forFolder) {
      mkdir(full, 0o700);
      this.#makeOpaque(path);
    }
  }

  /** Creates a file for writing, in the place of what was there. */
  #create(path: string): number {
    const full = this.#full(path);
    const flags = O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW;
    try {
      return open(full, flags, 0o600);
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
      this.#clear(path, false);
      this.#made.add(path);
      return open(full, flags, 0o600);
    }
  }

  #forget(path: string): void {
    this.#resolved.clear();
    for (const set of [this.#made, this.#opaque, this.#times]) {
      for (const key of set.keys()) if (key === path || key.startsWith(`${path}/`)) set.delete(key);
    }
  }

  #makeOpaque(path: string): void {
    const below = this.#below(path);
    if (below && isDirectory(below.stat)) setXattr(this.#full(path), opaqueXattr(), YES);
    this.#opaque.add(path);
  }

  /** Resolves a folder of the archive inside the root; makes missing folders. */
  #folder(parts: string[], header: TarHeader): string {
    const key = parts.join("/");
    const known = this.#resolved.get(key);
    if (known !== undefined) return known;
    let at = "";
    let links = 0;
    const rest = parts.toReversed();
    const follow = (target: string) => {
      if (++links > MAX_LINKS) throw archiveError(`the links at ${JSON.stringify(key)} are a loop`);
      if (target.startsWith("/")) at = "";
      rest.push(...target.split("/").filter((part) => part !== "" && part !== ".").reverse());
    };
    while (rest.length > 0) {
      const part = rest.pop()!;
      if (part === "..") {
        at = parentOf(at);
        continue;
      }
      this.#remember(at);
      const path = joinPath(at, part);
      const there = tryLstat(this.#full(path));
      if (there && isDirectory(there)) at = path;
      else if (there && (there.mode & S_IFMT) === S_IFLNK) follow(readlink(this.#full(path)));
      else {
        const below = there ? undefined : this.#below(path);
        if (below && (below.stat.mode & S_IFMT) === S_IFLNK) {
          follow(readlink(below.path));
          continue;
        }
        this.#makeFolder(path, below, header);
        at = path;
      }
    }
    this.#remember(at);
    this.#resolved.set(key, at);
    return at;
  }

  /** Makes a folder that the layer does not list: like the lower tree's, or with defaults. */
  #makeFolder(path: string, below: Found | undefined, header: TarHeader): void {
    const full = this.#full(path);
    if (below && isDirectory(below.stat)) {
      copyFolder(below.path, below.stat, full);
      this.#times.set(path, [below.stat.mtime, below.stat.mtimeNs]);
    } else {
      this.#clear(path, true);
      if (!tryLstat(full)) mkdir(full, 0o755);
      chmod(full, 0o755);
      this.#times.set(path, [header.mtime, header.mtimeNs]);
    }
    this.#made.add(path);
  }

  /** Notes a folder's time before this layer writes into the folder. */
  #remember(path: string): void {
    if (this.#times.has(path)) return;
    const { mtime, mtimeNs } = lstat(this.#full(path));
    this.#times.set(path, [mtime, mtimeNs]);
  }

  #hardlink(header: TarHeader, path: string): void {
    const parts = header.linkpath.split("/").filter((part) => part !== "" && part !== ".");
    const base = parts.pop();
    const bad = (what: string) =>
      archiveError(
        `hard link ${JSON.stringify(header.path)} to ${JSON.stringify(header.linkpath)} ${what}`,
      );
    if (base === undefined || base === ".." || parts.includes("..")) {
      throw bad("leads out of its root");
    }
    const target = joinPath(this.#folder(parts, header), base);
    if (target === path) return;
    let there = tryLstat(this.#full(target));
    if (there && this.#overlay && isWhiteout(there)) there = undefined;
    if (!there) {
      const below = this.#below(target);
      if (!below) throw bad("names what is not there");
      if (isDirectory(below.stat)) throw bad("names a folder");
      copyFile(below.path, below.stat, this.#full(target));
    } else if (isDirectory(there)) throw bad("names a folder");
    this.#clear(path, false);
    link(this.#full(target), this.#full(path));
    this.#made.add(path);
  }

  #mark(parts: string[], base: string, header: TarHeader): void {
    if (base === OPAQUE) return this.#hideFolder(this.#folder(parts, header));
    // Other names of this form are aufs's own and have no meaning here.
    if (base.startsWith(WHITEOUT + WHITEOUT)) return;
    const name = base.slice(WHITEOUT.length);
    if (name === "" || name === "." || name === "..") {
      throw archiveError(`white-out ${JSON.stringify(header.path)} names nothing`);
    }
    const path = joinPath(this.#folder(parts, header), name);
    const there = tryLstat(this.#full(path));
    if (there && this.#made.has(path)) {
      // The layer also has a new entry of that name, which stays.
      if (isDirectory(there)) this.#hideFolder(path);
      return;
    }
    if (there) {
      removeTreeSync(this.#full(path));
      this.#forget(path);
    }
    if (this.#below(path)) mknod(this.#full(path), S_IFCHR);
  }

  /** Removes everything in the folder that this layer did not make. */
  #hideFolder(path: string): void {
    this.#removeOld(path);
    if (!this.#overlay || this.#opaque.has(path)) return;
    if (path !== "") return this.#makeOpaque(path);
    // Overlay does not take an opaque mark on a tree's root, so each name is hidden.
    for (const name of this.#lower.names("")) {
      const there = tryLstat(this.#full(name));
      if (!there) mknod(this.#full(name), S_IFCHR);
      else if (isDirectory(there) && !isOpaque(this.#full(name))) this.#makeOpaque(name);
    }
  }

  #removeOld(path: string): void {
    for (const name of readNames(this.#full(path))) {
      const child = joinPath(path, name);
      const full = this.#full(child);
      if (!this.#made.has(child)) {
        removeTreeSync(full);
        this.#forget(child);
      } else if (isDirectory(lstat(full))) this.#removeOld(child);
    }
  }
}

/** The error of a layer that could not be unpacked, with the entry's name in it. */
export function applyError(error: unknown, entry: string | undefined): unknown {
  if (error instanceof SvcError || entry === undefined) return error;
  const text = error instanceof Error ? error.message : String(error);
  const code = (error as { code?: unknown })?.code;
  return Object.assign(new Error(`entry ${JSON.stringify(entry)}: ${text}`), { code });
}
