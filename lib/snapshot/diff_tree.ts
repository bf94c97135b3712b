/**
 * The layer tar of what a tree changed, synchronously, in a Worker. Entries are sorted by the bytes of their
 * names, depth first, so the same tree gives the same archive. Times are whole seconds (rounded down), as in
 * other builders' layers: a fraction would double each header.
 */
import { compareRaw } from "../base/raw_string.ts";
import { SvcError } from "../base/errors.ts";
import { BLOCK, padding, type TarType } from "../oci/tar.ts";
import { tarEnd, tarHeader } from "../oci/tar_write.ts";
import { readNames } from "../sys/directory.ts";
import { close, read } from "../sys/fd.ts";
import { OpenFolder } from "../sys/open_folder.ts";
import { READING } from "../sys/rooted_file.ts";
import { hasXattrs } from "../sys/xattr.ts";
import { type FileStat, lstat, O, readlink, S_IFDIR, S_IFMT, tryLstat } from "../sys/files.ts";
import {
  baseOf,
  isDirectory,
  isOpaque,
  isWhiteout,
  joinPath,
  LowerTree,
  parentOf,
} from "./lower.ts";
import { layerXattrs, TAR_TYPES } from "./metadata.ts";
import { sameFile } from "./same_file.ts";

export interface DiffSource {
  /** Overlay's upper folder, or a whole tree. */
  root: string;
  /**
   * With overlay: upper folders of the snapshots that this one amends, topmost first; their changes count as
   * this tree's.
   */
  over?: string[];
  /** The tree below: overlay's lower folders, topmost first, or the parent's whole tree. */
  lower: string[];
  overlay: boolean;
  /** Latest time in the archive, in seconds since 1970. */
  epoch?: number;
}

const CHUNK = 256 * 1024;
const ZEROS = new Uint8Array(BLOCK);

/** Yields the archive in pieces of at most about 256 KiB, each with a buffer of its own. */
export function* diffTree(source: DiffSource): Generator<Uint8Array<ArrayBuffer>, void, void> {
  const walker = new Walker(source);
  let pending = new Uint8Array(CHUNK);
  let used = 0;
  for (const part of walker.archive()) {
    for (let at = 0; at < part.length;) {
      const take = Math.min(part.length - at, CHUNK - used);
      pending.set(part.subarray(at, at + take), used);
      at += take;
      used += take;
      if (used === CHUNK) {
        yield pending;
        pending = new Uint8Array(CHUNK);
        used = 0;
      }
    }
  }
  if (used > 0) yield pending.slice(0, used);
}

class Walker {
  #source: DiffSource;
  #lower: LowerTree;
  /** First path of each file with several names. */
  #links = new Map<string, string>();
  /** Folders that are written only once an entry in them is: the layer must list the parents of a change. */
  #parents: { path: string; stat: FileStat }[] = [];
  #buffer = new Uint8Array(CHUNK);
  /** Open folders for looking at entries, one per tree; `#reading` is for reading files. */
  #opened: OpenFolder[];
  #reading = new OpenFolder();

  constructor(source: DiffSource) {
    this.#source = source;
    this.#lower = new LowerTree(source.lower, source.overlay);
    this.#opened = [source.root, ...source.over ?? []].map(() => new OpenFolder());
  }

  *archive(): Generator<Uint8Array> {
    const { root, over = [], overlay } = this.#source;
    using folders = new DisposableStack();
    for (const folder of [...this.#opened, this.#reading]) folders.use(folder);
    const stat = lstat(root);
    if (this.#rootChanged(stat)) yield this.#header("", root, stat, "directory");
    if (overlay) yield* this.#overlayFolder("", [root, ...over], true);
    else yield* this.#plainFolder("", this.#source.lower.length > 0);
    yield tarEnd();
  }

  #full(path: string): string {
    return path === "" ? this.#source.root : `${this.#source.root}/${path}`;
  }

  /** True where the root's metadata differs from the parent's, or from the default where there is no parent. */
  #rootChanged(stat: FileStat): boolean {
    const below = this.#lower.lookup("")?.stat ?? { mode: S_IFDIR | 0o755, uid: 0, gid: 0 };
    return stat.mode !== below.mode || stat.uid !== below.uid || stat.gid !== below.gid;
  }

  #sorted(path: string): string[] {
    return readNames(this.#full(path)).sort(compareRaw);
  }

  /**
   * A folder of overlay's uppers, which hold only changes. `merged`: lower folders show through. `hosts`: the
   * folder's paths, topmost first.
   */
  *#overlayFolder(path: string, hosts: string[], merged: boolean): Generator<Uint8Array> {
    /** Name → index of the topmost of `hosts` that has it. */
    const places = new Map<string, number>();
    for (const [index, host] of hosts.entries()) {
      for (const name of readNames(host)) if (!places.has(name)) places.set(name, index);
    }
    for (const name of [...places.keys()].sort(compareRaw)) {
      const child = joinPath(path, name);
      const index = places.get(name)!;
      const full = `${hosts[index]}/${name}`;
      const stat = this.#opened[index].at(hosts[index]).lstat(name);
      if (isWhiteout(stat)) {
        if (merged && this.#lower.lookup(child)) yield whiteout(path, name);
        continue;
      }
      yield* this.#entry(child, full, stat);
      if (!isDirectory(stat)) continue;
      const { folders, opaque } = mergedFolders(name, full, hosts.slice(index + 1));
      const below = merged ? this.#lower.lookup(child) : undefined;
      const hides = below !== undefined && isDirectory(below.stat) && opaque;
      if (hides) yield whiteout(child, ".wh..opq");
      yield* this.#overlayFolder(
        child,
        folders,
        below !== undefined && isDirectory(below.stat) && !hides,
      );
    }
  }

  /** A folder of a whole tree, compared with the parent's; `compare` false: all of it is new. */
  *#plainFolder(path: string, compare: boolean): Generator<Uint8Array> {
    const names = this.#sorted(path);
    if (compare) {
      const here = new Set(names);
      for (const name of this.#lower.names(path)) if (!here.has(name)) names.push(name);
      names.sort(compareRaw);
      for (const name of names) {
        const child = joinPath(path, name);
        const below = this.#lower.lookup(child);
        if (!here.has(name)) {
          yield* this.#flushParents();
          yield whiteout(path, name);
          continue;
        }
        const stat = lstat(this.#full(child));
        const same = below !== undefined &&
          sameFile(this.#full(child), stat, below.path, below.stat);
        yield* this.#plainEntry(child, stat, same, below !== undefined && isDirectory(below.stat));
      }
      return;
    }
    for (const name of names) {
      const child = joinPath(path, name);
      yield* this.#plainEntry(child, lstat(this.#full(child)), false, false);
    }
  }

  *#plainEntry(
    path: string,
    stat: FileStat,
    same: boolean,
    compare: boolean,
  ): Generator<Uint8Array> {
    if (!same) {
      yield* this.#flushParents();
      yield* this.#entry(path, this.#full(path), stat);
    }
    if (!isDirectory(stat)) return;
    const depth = this.#parents.length;
    if (same) this.#parents.push({ path, stat });
    yield* this.#plainFolder(path, compare);
    this.#parents.length = Math.min(this.#parents.length, depth);
  }

  *#flushParents(): Generator<Uint8Array> {
    for (const { path, stat } of this.#parents.splice(0)) {
      yield* this.#entry(path, this.#full(path), stat);
    }
  }

  /** `host`: path of the entry on this host. */
  #header(
    path: string,
    host: string,
    stat: FileStat,
    type: TarType,
    linkpath = "",
    attributes = type !== "hardlink",
  ): Uint8Array {
    const device = type === "char" || type === "block";
    return tarHeader({
      path: path === "" ? "./" : path,
      type,
      linkpath,
      size: type === "file" ? stat.size : 0,
      mode: stat.mode & 0o7777,
      uid: stat.uid,
      gid: stat.gid,
      mtime: Math.min(stat.mtime, this.#source.epoch ?? Infinity),
      devMajor: device ? stat.rdevMajor : 0,
      devMinor: device ? stat.rdevMinor : 0,
      xattrs: attributes ? layerXattrs(host) : undefined,
    });
  }

  *#entry(path: string, host: string, stat: FileStat): Generator<Uint8Array> {
    // Sockets are left out: they belong to a running process, and a tar archive cannot hold one.
    const type = TAR_TYPES[stat.mode & S_IFMT];
    if (!type) return;
    if (type !== "directory" && stat.nlink > 1) {
      const key = `${stat.devMajor}:${stat.devMinor}:${stat.ino}`;
      const first = this.#links.get(key);
      if (first !== undefined) {
        yield this.#header(path, host, stat, "hardlink", first);
        return;
      }
      this.#links.set(key, path);
    }
    if (type === "file" && stat.size > 0) return yield* this.#file(path, host, stat);
    const target = type === "symlink" ? readlink(host) : "";
    yield this.#header(path, host, stat, type, target);
  }

  *#file(path: string, host: string, stat: FileStat): Generator<Uint8Array> {
    const { size } = stat;
    const folder = this.#reading.at(parentOf(host));
    const fd = folder.open(baseOf(host), READING | O.NOFOLLOW);
    try {
      yield this.#header(path, host, stat, "file", "", hasXattrs(fd));
      for (let left = size; left > 0;) {
        const got = read(fd, this.#buffer.subarray(0, Math.min(left, CHUNK)), host);
        if (got === 0) {
          throw new SvcError("conflict", `Cannot pack ${path}: it became shorter in the meantime`);
        }
        left -= got;
        yield this.#buffer.subarray(0, got);
      }
    } finally {
      close(fd);
    }
    const pad = padding(size);
    if (pad > 0) yield ZEROS.subarray(0, pad);
  }
}

/**
 * The folder `top` with the folders of its name that show through it, and whether everything below them is
 * hidden.
 */
function mergedFolders(name: string, top: string, under: string[]) {
  const folders = [top];
  let opaque = isOpaque(top);
  for (const host of under) {
    if (opaque) break;
    const full = `${host}/${name}`;
    const stat = tryLstat(full);
    if (!stat) continue;
    if (isDirectory(stat)) folders.push(full);
    opaque = !isDirectory(stat) || isOpaque(full);
  }
  return { folders, opaque };
}

/** A white-out: an empty file that hides `name` (or, as ".wh..opq", all of the folder). */
function whiteout(folder: string, name: string): Uint8Array {
  return tarHeader({ path: joinPath(folder, `.wh.${name}`), type: "file", mode: 0 });
}
