/**
 * Copies selections into a root file system, as BuildKit's COPY does: the contents of a folder, links as
 * links, times and modes kept. No link in the root leads a write out of it.
 */
import { posix } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { removeTreeSync } from "../../sys/directory.ts";
import {
  chmod,
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
import { FileCopier } from "./copy_files.ts";
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
  /** Selections keep their parent folders below the destination. */
  parents?: boolean;
  /**
   * `--link`: existing files are replaced without being looked at, and folders above the destination get this
   * copy's owner and mode.
   */
  link?: boolean;
  /** Patterns of entries below a source that are left out. */
  exclude?: string[];
  signal?: AbortSignal;
}

const S_ISGID = 0o2000;

class Copier {
  #options: CopyOptions;
  /** First copy of a file that has several names, by device and inode. */
  #links = new Map<string, string>();
  #writer: EntryWriter;
  /** Mode of the folders made above the destination: an octal --chmod applies to them too, as in BuildKit. */
  #folderMode: number;
  #exclude: Ignore | undefined;
  /** Folders that this source made. A source names nothing twice, so nothing can be in the way there. */
  #fresh = new Set<string>();
  #files: FileCopier;

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

  /** Makes missing folders of `path`, with the copy's owner and the usual mode. */
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
      // In a folder with the setgid bit, a new folder has that bit too.
      chmod(host, this.#folderMode | lstat(host).mode & S_ISGID);
    }
    return found.inside;
  }

  /**
   * Like {@linkcode makeFolders} for --link: links are not followed, and a file in the way is replaced by a
   * folder.
   */
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
    // Hard links are kept only among the names of one source.
    this.#links.clear();
    this.#fresh.clear();
    using _files = this.#files;
    /** Times of the folders, set when their contents are there. */
    const folders: [host: string, entry: TreeEntry][] = [];
    // The names of one folder come one after the other, so their parent is located once; nothing moves it
    // meanwhile. Below a folder that this copy made no links can be in the way.
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

  /**
   * Makes the folders that `--parents` keeps below `folder`, as they are in the source. Returns the path of
   * the innermost.
   */
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
   * Makes the folder for `entry` where it is missing. The copied folder itself passes on only its time;
   * folders below it take on the source's metadata. A link in the way is an error, as with docker.
   */
  #folder(entry: TreeEntry, wanted: string, host: string, times: [string, TreeEntry][]): void {
    const { root, link } = this.#options;
    if (entry.path === "") {
      const existing = link ? `${root}/${wanted}` : locate(root, wanted).host;
      if (link || !isDirectory(existing)) {
        this.makeFolders(wanted);
        if (!link) this.#fresh.add(existing);
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
      this.#fresh.add(host);
    }
    this.#writer.attributes(entry, host);
    times.push([host, entry]);
  }

  /** True where the entry's parent was made by this source, so that nothing is at `host`. */
  #isFresh(host: string): boolean {
    return this.#fresh.has(host.slice(0, host.lastIndexOf("/")));
  }

  /** Copies an entry that is not a folder. `inode`: identifies a file with several names. */
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
    if (kind === "file") return await this.#files.copy(stat, entry.host, host);
    this.#writer.make(entry, host);
  }
}

/**
 * A name for a file with several names, from the tree's own list or else from the file system; undefined for
 * other files.
 */
function inodeOf({ names }: Tree, { path }: Selection, { path: below, stat }: TreeEntry) {
  const inside = [path, below].filter((part) => part !== "").join("/");
  const { nlink, devMajor, devMinor, ino } = stat;
  return names?.get(inside) ?? (nlink > 1 ? `${devMajor}:${devMinor}:${ino}` : undefined);
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
  // A source that is a folder makes the destination itself, with its own time.
  const leaves = options.parents || selections.some(({ directory }) => !directory);
  if (asked && leaves) copier.makeFolders(destination);
  for (const selection of selections) {
    if (options.parents) {
      const folder = copier.parents(tree, selection, copier.makeFolders(destination));
      const name = selection.name.slice(selection.name.lastIndexOf("/") + 1);
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

/** Makes a folder and its parents as WORKDIR does; with `link`, as COPY --link does. */
export function makeFolders(
  root: string,
  path: string,
  owner?: { uid: number; gid: number },
  link = false,
): void {
  new Copier({ root, destination: path, owner, link }).makeFolders(path);
}
