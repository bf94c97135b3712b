/**
 * Copying selections into a root file system, as BuildKit's COPY does: a folder's contents, links as
 * links, times and modes kept, and no write outside the root whatever links it holds.
 */
import { posix } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { removeTreeSync } from "../../sys/directory.ts";
import {
  chmod,
  type FileStat,
  lchown,
  link,
  lstat,
  mkdir,
  S_IFDIR,
  S_IFMT,
  setTimes,
  tryLstat,
  unlink,
} from "../../sys/files.ts";
import { isOctal, parseChmod } from "./chmod.ts";
import { type FileBatch, FileCopier } from "./copy_files.ts";
import { EntryWriter } from "./entry_writer.ts";
import { type Ignore, ignorePatterns } from "../parse/ignore.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";
import { parentEntry, type Selection, type Tree, type TreeEntry, walk } from "./tree.ts";

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
  /** Where the root's own changes are: files in new folders are left for {@linkcode RestOfFolder}. */
  upper?: string;
  signal?: AbortSignal;
}

/**
 * Files in a folder that the copy made, to be copied where the root's changes are once the root is not mounted
 * any more: the same files in less time, and by several threads. The folder's time is set when they are there.
 */
export interface RestOfFolder extends FileBatch {
  time: Time;
}

/** Seconds since 1970, rounded down, and the nanoseconds above them. */
type Time = Pick<FileStat, "mtime" | "mtimeNs">;

const S_ISGID = 0o2000;

class Copier {
  #options: CopyOptions;
  /** First copy of a file that has several names, by device and inode. */
  #links = new Map<string, string>();
  #writer: EntryWriter;
  /** Of the folders made on the way: an octal --chmod is theirs too, as BuildKit has it. */
  #folderMode: number;
  #exclude: Ignore | undefined;
  /** Folders that this source made, and their times: it names nothing in them twice. */
  #fresh = new Map<string, Time>();
  /** Of those folders, what is left for later. */
  readonly rest = new Map<string, RestOfFolder>();
  #files: FileCopier;
  #defer = false;

  constructor(options: CopyOptions) {
    this.#options = options;
    this.#files = new FileCopier(options);
    this.#writer = new EntryWriter(options);
    const { chmod } = options;
    this.#folderMode = chmod !== undefined && isOctal(chmod)
      ? parseChmod(chmod)(0, true) & 0o755
      : 0o755;
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
      // In a folder with the setgid bit a new one has it too.
      chmod(host, this.#folderMode | lstat(host).mode & S_ISGID);
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

  /** `last`: nothing is copied after this. */
  async tree(tree: Tree, selection: Selection, target: string, last: boolean): Promise<void> {
    const { root, link, signal } = this.#options;
    const exclude = this.#exclude;
    // Only names of one source share an inode at the destination.
    this.#links.clear();
    this.#fresh.clear();
    this.#defer = last && this.#options.upper !== undefined;
    using _files = this.#files;
    /** Times of the folders, set when their contents are there. */
    const folders: [host: string, entry: TreeEntry][] = [];
    // Names of one folder come one after the other: it is looked for once, and nothing here moves it. Below
    // a folder of this copy there is nothing to look for: it is itself, and no link.
    let current: { above: string; parent: string } | undefined;
    const known = new Map<string, string>();
    for await (const entry of walk(tree, selection.path, { exclude, signal })) {
      const wanted = entry.path === "" ? target : `${target}/${entry.path}`;
      const slash = wanted.lastIndexOf("/");
      const above = slash < 0 ? "" : wanted.slice(0, slash);
      if (current?.above !== above) {
        const parent = link ? above : known.get(above) ?? locate(root, above).inside;
        if (!known.has(above) && !isDirectory(parent === "" ? root : `${root}/${parent}`)) {
          this.makeFolders(parent);
        }
        current = { above, parent };
      }
      const { parent } = current;
      const host = `${parent === "" ? root : `${root}/${parent}`}/${wanted.slice(slash + 1)}`;
      if (entry.kind === "directory") {
        this.#folder(entry, wanted, host, folders);
        if (entry.path !== "") known.set(wanted, host.slice(root.length + 1));
      } else await this.#leaf(entry, host, inodeOf(tree, selection, entry));
    }
    for (const [host, entry] of folders.reverse()) {
      setTimes(host, entry.stat.mtime, entry.stat.mtimeNs);
    }
  }

  /** Folders of a name that `--parents` keeps below `folder`, as the source has them. Where the last one is. */
  parents(tree: Tree, { name, folders = [] }: Selection, folder: string): string {
    const { root, link } = this.#options;
    let inside = inner(folder);
    for (const [index, part] of name.split("/").slice(0, folders.length).entries()) {
      inside = inner(this.makeFolders(`/${inside}/${part}`));
      const entry = parentEntry(tree, folders[index]);
      const host = link ? `${root}/${inside}` : locate(root, inside).host;
      if (entry?.kind === "directory") this.#writer.attributes(entry, host);
    }
    return inside;
  }

  /**
   * The folder that is copied gives its contents and its time.
   * Folders below it take on what the source's have; a link in the way is an error, as with docker.
   */
  #folder(entry: TreeEntry, wanted: string, host: string, times: [string, TreeEntry][]): void {
    const { root, link } = this.#options;
    if (entry.path === "") {
      const existing = link ? `${root}/${wanted}` : locate(root, wanted).host;
      if (link || !isDirectory(existing)) {
        this.makeFolders(wanted);
        if (!link) this.#fresh.set(existing, timeOf(entry));
      }
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
      this.#fresh.set(host, timeOf(entry));
    }
    this.#writer.attributes(entry, host);
    times.push([host, entry]);
  }

  /** Nothing of that name is there, nor was before. */
  #isFresh(host: string): boolean {
    return this.#fresh.has(host.slice(0, host.lastIndexOf("/")));
  }

  /** `inode`: of one with several names. */
  async #leaf(entry: TreeEntry, host: string, inode: string | undefined): Promise<void> {
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
    const first = inode === undefined ? undefined : this.#links.get(inode);
    if (first !== undefined && tryLstat(first)) return link(first, host);
    if (inode !== undefined) this.#links.set(inode, host);
    if (kind === "file") {
      if (fresh && this.#defer && inode === undefined) return this.#later(entry, host);
      return await this.#files.copy(stat, entry.host, host);
    }
    this.#writer.make(entry, host);
  }

  #later(entry: TreeEntry, host: string): void {
    const { root, upper } = this.#options;
    const slash = host.lastIndexOf("/");
    const folder = host.slice(0, slash);
    let rest = this.rest.get(folder);
    if (!rest) {
      this.rest.set(
        folder,
        rest = {
          from: entry.host.slice(0, entry.host.lastIndexOf("/")),
          to: `${upper}${folder.slice(root.length)}`,
          names: [],
          time: this.#fresh.get(folder)!,
        },
      );
    }
    rest.names.push(host.slice(slash + 1));
  }
}

const timeOf = ({ stat: { mtime, mtimeNs } }: TreeEntry): Time => ({ mtime, mtimeNs });

/** Names a file that has several names: what its tree says, or its file system. */
function inodeOf({ names }: Tree, { path }: Selection, { path: below, stat }: TreeEntry) {
  const inside = [path, below].filter((part) => part !== "").join("/");
  const { nlink, devMajor, devMinor, ino } = stat;
  return names?.get(inside) ?? (nlink > 1 ? `${devMajor}:${devMinor}:${ino}` : undefined);
}

/** Path inside the root, without a slash at either end. */
const inner = (path: string) => path.replace(/^\/+|\/+$/g, "");

/**
 * Copies the selections of one source. Throws `build_failed` with a message that begins with what cannot
 * be done; the caller puts line and instruction before it. Gives what is left to copy, where the options
 * say that something may be.
 */
export async function copySelections(
  tree: Tree,
  selections: Selection[],
  options: CopyOptions,
): Promise<RestOfFolder[]> {
  const copier = new Copier(options);
  const { destination, root } = options;
  const asked = destination.endsWith("/") || options.parents === true;
  // A folder that is copied makes its own destination, with its own time.
  const leaves = options.parents || selections.some(({ directory }) => !directory);
  if (asked && leaves) copier.makeFolders(destination);
  for (const [index, selection] of selections.entries()) {
    const last = index === selections.length - 1;
    if (options.parents) {
      const folder = copier.parents(tree, selection, copier.makeFolders(destination));
      const name = selection.name.slice(selection.name.lastIndexOf("/") + 1);
      await copier.tree(tree, selection, inner(`${folder}/${name}`), last);
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
      await copier.tree(tree, selection, target.inside, last);
    } else if (into) {
      await copier.tree(tree, selection, inner(`${target.inside}/${selection.name}`), last);
    } else {
      copier.makeFolders(parentOf(target.inside));
      await copier.tree(tree, selection, target.inside, last);
    }
  }
  return [...copier.rest.values()];
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
