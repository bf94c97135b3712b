/**
 * Copying selections into a root file system, as BuildKit's COPY does: a folder's contents, links as
 * links, times and modes kept, and no write outside the root whatever links it holds.
 */
import { posix } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { removeTreeSync } from "../../sys/directory.ts";
import { chmodFd, chownFd, cloneFd, close, read, writeAll } from "../../sys/fd.ts";
import {
  chmod,
  lchown,
  link,
  mkdir,
  mknod,
  O,
  readlink,
  S_IFDIR,
  S_IFMT,
  setTimes,
  setTimesFd,
  statFd,
  symlink,
  tryLstat,
  unlink,
} from "../../sys/files.ts";
import { OpenFolder } from "../../sys/open_folder.ts";
import { hasXattrs, readXattrs, setXattr } from "../../sys/xattr.ts";
import { isOctal, parseChmod } from "./chmod.ts";
import { type Ignore, ignorePatterns } from "../parse/ignore.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";
import { isCopied, type Selection, type Tree, type TreeEntry, walk } from "./tree.ts";

export interface CopyOptions {
  /** The mounted root that is written to. */
  root: string;
  /** Absolute inside the root; a trailing slash makes it a folder. */
  destination: string;
  owner?: { uid: number; gid: number };
  /** As `--chmod` has it. */
  chmod?: string;
  /** Selections keep their folders below the destination. */
  parents?: boolean;
  /** What is there is not looked at but replaced; folders on the way become as this copy makes them. */
  link?: boolean;
  /** Patterns that leave out what is below a source. */
  exclude?: string[];
  signal?: AbortSignal;
}

/** Bytes copied at one go before other work gets its turn. */
const SLICE = 1 << 20;
/** Used between two waits only. */
const buffer = new Uint8Array(256 * 1024);

class Copier {
  #options: CopyOptions;
  /** First copy of a file that has several names, by device and inode. */
  #links = new Map<string, string>();
  #mode: ((mode: number, directory: boolean) => number) | undefined;
  /** Of the folders made on the way: an octal --chmod is theirs too, as BuildKit has it. */
  #folderMode: number;
  #exclude: Ignore | undefined;
  /** Folders that this source made: it names nothing in them twice. */
  #fresh = new Set<string>();
  /** The folders that files are copied from and to. */
  #from = new OpenFolder();
  #to = new OpenFolder();
  /** Folder, mode and owner with which new files come about as they are to be. */
  #settled = "";
  /** Files share their bytes with what they are copied from, until one does not. */
  #clones = true;

  constructor(options: CopyOptions) {
    this.#options = options;
    this.#mode = options.chmod === undefined ? undefined : parseChmod(options.chmod);
    this.#folderMode = this.#mode && isOctal(options.chmod!) ? this.#mode(0, true) : 0o755;
    if (options.exclude?.length) this.#exclude = ignorePatterns(options.exclude);
  }

  /** Folders on the way, owned as the copy is, with the usual mode. */
  makeFolders(path: string): string {
    const { root, owner, link } = this.#options;
    if (link) return this.#overFolders(path);
    const found = locate(root, path);
    let host = root;
    for (const part of found.inside === "" ? [] : found.inside.split("/")) {
      host += `/${part}`;
      if (tryLstat(host)) {
        if (isDirectory(host)) continue;
        throw new SvcError(
          "build_failed",
          `cannot make the folder ${path}: /${host.slice(root.length + 1)} is a file`,
        );
      }
      mkdir(host, 0o755);
      if (owner) lchown(host, owner.uid, owner.gid);
      chmod(host, this.#folderMode);
    }
    return found.inside;
  }

  /** The same without a look at links: what is no folder gives way to one. */
  #overFolders(path: string): string {
    const { root, owner = { uid: 0, gid: 0 } } = this.#options;
    const inside = inner(posix.normalize(`/${path}`));
    let host = root;
    for (const part of inside === "" ? [] : inside.split("/")) {
      host += `/${part}`;
      if (!isDirectory(host)) {
        if (tryLstat(host)) unlink(host);
        mkdir(host, 0o755);
      }
      lchown(host, owner.uid, owner.gid);
      chmod(host, this.#folderMode);
    }
    return inside;
  }

  async tree(tree: Tree, selection: Selection, target: string): Promise<void> {
    const { root, link, signal } = this.#options;
    const exclude = this.#exclude;
    // Only names of one source share an inode at the destination.
    this.#links.clear();
    this.#fresh.clear();
    this.#settled = "";
    using _from = this.#from;
    using _to = this.#to;
    /** Times of the folders, set when their contents are there. */
    const folders: [host: string, entry: TreeEntry][] = [];
    // Names of one folder come one after the other: it is looked for once, and nothing here moves it. Below
    // a folder of this copy there is nothing to look for: it is itself, and no link.
    let last: { above: string; parent: string } | undefined;
    const known = new Map<string, string>();
    for await (const entry of walk(tree, selection.path, { exclude, signal })) {
      const wanted = entry.path === "" ? target : `${target}/${entry.path}`;
      const slash = wanted.lastIndexOf("/");
      const above = slash < 0 ? "" : wanted.slice(0, slash);
      if (last?.above !== above) {
        const parent = link ? above : known.get(above) ?? locate(root, above).inside;
        if (!known.has(above) && !isDirectory(parent === "" ? root : `${root}/${parent}`)) {
          this.makeFolders(parent);
        }
        last = { above, parent };
      }
      const { parent } = last;
      const host = `${parent === "" ? root : `${root}/${parent}`}/${wanted.slice(slash + 1)}`;
      if (entry.kind === "directory") {
        this.#folder(entry, wanted, host, folders);
        if (entry.path !== "") known.set(wanted, host.slice(root.length + 1));
      } else await this.#leaf(entry, host);
    }
    for (const [host, entry] of folders.reverse()) setTimes(host, entry.stat.mtime);
  }

  /**
   * The folder that is copied gives its contents, and its time to a destination that was not there.
   * Folders below it take on what the source's have; a link in the way is an error, as with docker.
   */
  #folder(entry: TreeEntry, wanted: string, host: string, times: [string, TreeEntry][]): void {
    const { root, link } = this.#options;
    if (entry.path === "") {
      const existing = link ? `${root}/${wanted}` : locate(root, wanted).host;
      if (!link && isDirectory(existing)) return;
      this.makeFolders(wanted);
      times.push([existing, entry]);
      return;
    }
    const fresh = this.#isFresh(host);
    if (fresh || !isDirectory(host)) {
      if (!fresh && link && tryLstat(host)) unlink(host);
      if (!fresh && tryLstat(host)) {
        throw new SvcError(
          "build_failed",
          `cannot copy the folder ${entry.path} over /${wanted}, which is not a folder`,
        );
      }
      mkdir(host, 0o755);
      this.#fresh.add(host);
    }
    this.#attributes(entry, host);
    times.push([host, entry]);
  }

  /** Nothing of that name is there, nor was before. */
  #isFresh(host: string): boolean {
    return this.#fresh.has(host.slice(0, host.lastIndexOf("/")));
  }

  async #leaf(entry: TreeEntry, host: string): Promise<void> {
    const { stat, kind } = entry;
    const fresh = this.#isFresh(host);
    if (!fresh && this.#options.link && isDirectory(host)) removeTreeSync(host);
    const there = fresh ? undefined : tryLstat(host);
    if (there && (there.mode & S_IFMT) === S_IFDIR) {
      throw new SvcError(
        "build_failed",
        `cannot copy the file ${entry.path || entry.host.split("/").pop()} over a folder`,
      );
    }
    if (there) unlink(host);
    const inode = `${stat.devMajor}:${stat.devMinor}:${stat.ino}`;
    const first = stat.nlink > 1 ? this.#links.get(inode) : undefined;
    if (first !== undefined && tryLstat(first)) return link(first, host);
    if (stat.nlink > 1) this.#links.set(inode, host);
    if (kind === "file") return await this.#file(entry, host);
    if (kind === "symlink") {
      symlink(readlink(entry.host), host);
      this.#own(entry, host);
    } else {
      mknod(host, stat.mode, stat.rdevMajor, stat.rdevMinor);
      this.#attributes(entry, host);
    }
    setTimes(host, stat.mtime);
  }

  /** By its descriptor: a name is looked for more slowly than a file is changed. */
  async #file(entry: TreeEntry, host: string): Promise<void> {
    const { stat } = entry;
    const { uid, gid } = this.#options.owner ?? stat;
    const kept = stat.mode & 0o7777;
    const mode = this.#mode?.(kept, false) ?? kept;
    const [above, original] = cut(entry.host);
    const [folder, name] = cut(host);
    const source = this.#from.at(above).open(original, O.RDONLY);
    try {
      // What writing takes away is set at the end.
      const first = mode <= 0o777 ? mode : 0o600;
      const flags = O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW;
      const target = this.#to.at(folder).open(name, flags, first);
      try {
        this.#clones = this.#clones && cloneFd(target, source);
        if (!this.#clones) await this.#data(source, entry.host, target, host);
        const wanted = `${folder} ${mode} ${uid} ${gid}`;
        if (this.#settled !== wanted) {
          if (isLike(target, mode, uid, gid)) this.#settled = wanted;
          else {
            // Owner first: it takes away setuid bits and capabilities.
            chownFd(target, uid, gid, host);
            chmodFd(target, mode, host);
          }
        }
        if (hasXattrs(source)) this.#xattrs(entry, host);
        setTimesFd(target, stat.mtime, 0, host);
      } finally {
        close(target);
      }
    } finally {
      close(source);
    }
  }

  async #data(source: number, from: string, target: number, to: string): Promise<void> {
    let moved = 0;
    for (let n = read(source, buffer, from); n > 0; n = read(source, buffer, from)) {
      writeAll(target, buffer.subarray(0, n), to);
      moved += n;
      if (moved < SLICE) continue;
      moved = 0;
      this.#options.signal?.throwIfAborted();
      await new Promise<void>((next) => setImmediate(next));
    }
  }

  #own({ stat }: TreeEntry, host: string): void {
    const { uid, gid } = this.#options.owner ?? stat;
    lchown(host, uid, gid);
  }

  /** Owner first: it takes away setuid bits and capabilities. */
  #attributes(entry: TreeEntry, host: string): void {
    this.#own(entry, host);
    const mode = entry.stat.mode & 0o7777;
    chmod(host, this.#mode?.(mode, entry.kind === "directory") ?? mode);
    this.#xattrs(entry, host);
  }

  #xattrs(entry: TreeEntry, host: string): void {
    for (const [name, value] of readXattrs(entry.host)) {
      if (isCopied(name)) setXattr(host, name, value);
    }
  }
}

/** Folder and name of a path. */
function cut(host: string): [folder: string, name: string] {
  const slash = host.lastIndexOf("/");
  return [host.slice(0, slash), host.slice(slash + 1)];
}

function isLike(fd: number, mode: number, uid: number, gid: number): boolean {
  const stat = statFd(fd);
  return (stat.mode & 0o7777) === mode && stat.uid === uid && stat.gid === gid;
}

/** Path inside the root, without a slash at either end. */
const inner = (path: string) => path.replace(/^\/+|\/+$/g, "");

/**
 * Copies the selections of one source. Throws `build_failed` with a message that begins with what cannot
 * be done; the caller puts line and instruction before it.
 */
export async function copySelections(
  tree: Tree,
  selections: Selection[],
  options: CopyOptions,
): Promise<void> {
  const copier = new Copier(options);
  const { destination, root } = options;
  const asked = destination.endsWith("/") || options.parents === true;
  // A folder that is copied makes its own destination, with its own time.
  const leaves = options.parents || selections.some(({ directory }) => !directory);
  if (asked && leaves) copier.makeFolders(destination);
  for (const selection of selections) {
    if (options.parents) {
      const slash = selection.name.lastIndexOf("/");
      const below = slash < 0 ? "" : `/${selection.name.slice(0, slash)}`;
      const folder = copier.makeFolders(`${destination}${below}`);
      const name = selection.name.slice(slash + 1);
      await copier.tree(tree, selection, inner(`${folder}/${name}`));
      continue;
    }
    const raw = inner(posix.normalize(destination));
    const target = options.link
      ? { host: `${root}/${raw}`, inside: raw }
      : locate(root, destination);
    const into = asked || !options.link && isDirectory(target.host);
    if (selection.directory) {
      if (!options.link && tryLstat(target.host) && !isDirectory(target.host)) {
        throw new SvcError(
          "build_failed",
          `cannot copy a folder over ${destination}, which is a file`,
        );
      }
      copier.makeFolders(parentOf(target.inside));
      await copier.tree(tree, selection, target.inside);
    } else if (into) {
      await copier.tree(tree, selection, inner(`${target.inside}/${selection.name}`));
    } else {
      copier.makeFolders(parentOf(target.inside));
      await copier.tree(tree, selection, target.inside);
    }
  }
}

function parentOf(inside: string): string {
  const slash = inside.lastIndexOf("/");
  return slash < 0 ? "" : inside.slice(0, slash);
}

/** Makes a folder and its parents, as WORKDIR does; with `link` as COPY --link does. */
export function makeFolders(
  root: string,
  path: string,
  owner?: { uid: number; gid: number },
  link = false,
): void {
  new Copier({ root, destination: path, owner, link }).makeFolders(path);
}
