/**
 * A folder as a build offers it: read-only and confined. No path leads outside the folder, whatever links it
 * holds, also while somebody exchanges folders for links. On Linux each part of a path is opened by itself,
 * below the part before, without following a link; elsewhere the path is checked again after it was opened.
 */
import { join } from "../../base/path.ts";
import { permissionsOf } from "../../base/fs.ts";
import type { Entry, EntryStat } from "../../sys/entry_stat.ts";
import { hostFiles } from "./host_files.ts";
import { asFileError, kindOf, TYPE_BITS } from "./node.ts";
import { ERRNO, FileError } from "./stat.ts";

/** Other kinds of files are not shown. */
export type ShownKind = "file" | "directory" | "symlink";

export interface FolderStat {
  kind: ShownKind;
  /** Includes the type's bits, as on Linux. */
  mode: number;
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  nlink: number;
  ino: number;
  dev: number;
  /** Changes whenever the file is written to or replaced. */
  stamp: string;
}

export interface FolderOptions {
  /** Whether a path (relative, "" the root) is shown at all; default: all are. */
  visible?: (path: string, directory: boolean) => boolean;
}

const LINUX = Deno.build.os === "linux";

const missing = (path: readonly string[]) =>
  new FileError(ERRNO.ENOENT, `${path.join("/")} is not there`);

/** Names that lead anywhere but to an entry of their folder. */
function isEntryName(name: string): boolean {
  if (name === "" || name === "." || name === ".." || /[/\0]/.test(name)) return false;
  return Deno.build.os !== "windows" || !/[\\:]/.test(name);
}

/** Reads up to `most` bytes and closes `fd`. */
function readUpTo(fd: number, most: number): Uint8Array {
  try {
    const bytes = new Uint8Array(most);
    let size = 0;
    // `most` is one more than the expected size: a file of that size takes one call.
    while (size < most) {
      const got = hostFiles().read(fd, bytes.subarray(size));
      size += got;
      if (got === 0 || size === most - 1) break;
    }
    return bytes.subarray(0, size);
  } finally {
    hostFiles().close(fd);
  }
}

/** Deno reports times in milliseconds. */
function timesOf({ mtime }: Deno.FileInfo): Pick<FolderStat, "mtime" | "mtimeNs"> {
  const ms = mtime?.getTime() ?? 0;
  const seconds = Math.floor(ms / 1000);
  return { mtime: seconds, mtimeNs: (ms - seconds * 1000) * 1e6 };
}

export class ConfinedFolder implements Disposable {
  readonly root: string;
  /** Kept open, so that the root stays the same folder. */
  #fd: number | undefined;
  readonly visible: (path: string, directory: boolean) => boolean;

  /** Throws the system's error where `root` is not a folder. */
  constructor(root: string, options: FolderOptions = {}) {
    this.root = Deno.realPathSync(root);
    this.visible = options.visible ?? (() => true);
    if (LINUX) this.#fd = hostFiles().folder(this.root);
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) hostFiles().close(this.#fd);
    this.#fd = undefined;
  }

  /** Throws ENOENT for a path that does not exist, is hidden, or is neither a file, a folder nor a link. */
  stat(path: readonly string[]): FolderStat {
    return this.#at(path, (host) => {
      const known = hostFiles().entry?.(host);
      const stat = known && this.#entry(known, path.join("/"));
      return stat ?? this.#shown(path, Deno.lstatSync(host));
    });
  }

  /**
   * The shown entries, in the order of their names' UTF-16 units. `others` is called with entries of other
   * kinds.
   */
  list(
    path: readonly string[],
    others?: (name: string, info: Deno.FileInfo | undefined) => void,
  ): { name: string; stat: FolderStat }[] {
    return this.#at(path, (host) => {
      const prefix = path.map((part) => `${part}/`).join("");
      const entries: { name: string; stat: FolderStat }[] = [];
      const found: Iterable<Entry> = hostFiles().entries?.(host) ?? Deno.readDirSync(host);
      for (const { name, stat: known } of found) {
        const stat = known && this.#entry(known, prefix + name);
        if (stat) {
          entries.push({ name, stat });
          continue;
        }
        let info: Deno.FileInfo | undefined;
        try {
          info = Deno.lstatSync(`${host}/${name}`);
          entries.push({ name, stat: this.#shown([...path, name], info) });
        } catch (error) {
          if (asFileError(error).errno !== ERRNO.ENOENT) throw error;
          others?.(name, info);
        }
      }
      return entries.sort((a, b) => a.name < b.name ? -1 : 1);
    }, true);
  }

  readlink(path: readonly string[]): string {
    if (this.stat(path).kind !== "symlink") throw new FileError(ERRNO.EINVAL, "it is not a link");
    return this.#at(path, (host) => Deno.readLinkSync(host));
  }

  /** A descriptor of a file; the caller closes it. */
  open(path: readonly string[]): { fd: number; size: number } {
    return this.#at(path, (host) => this.#opened(path, host));
  }

  /**
   * The contents of files of one folder, of each up to `most` bytes, or the error of reading it. Does not
   * throw: an error of the folder is the result for each file.
   */
  readFiles(
    path: readonly string[],
    files: readonly { name: string; most: number }[],
  ): (Uint8Array | FileError)[] {
    try {
      return this.#at(path, (host) =>
        files.map(({ name, most }) => {
          try {
            if (!isEntryName(name)) throw missing([...path, name]);
            return readUpTo(this.#opened([...path, name], `${host}/${name}`).fd, most);
          } catch (error) {
            return asFileError(error);
          }
        }), true);
    } catch (error) {
      const answer = asFileError(error);
      return files.map(() => answer);
    }
  }

  #opened(path: readonly string[], host: string): { fd: number; size: number } {
    // Opening a device may have effects: only regular files are opened.
    if (this.#shown(path, Deno.lstatSync(host)).kind !== "file") {
      throw new FileError(ERRNO.EISDIR, "it is not a file");
    }
    const fd = hostFiles().file(host);
    try {
      const stat = hostFiles().stat(fd);
      if (!stat.isFile) throw missing(path);
      if (!LINUX) this.#recheck(path, host, stat);
      return { fd, size: stat.size };
    } catch (error) {
      hostFiles().close(fd);
      throw error;
    }
  }

  /** Checks that the path still leads to the file that was opened. */
  #recheck(
    path: readonly string[],
    host: string,
    opened: Pick<Deno.FileInfo, "ino" | "dev">,
  ): void {
    const real = Deno.realPathSync(host);
    const now = Deno.lstatSync(host);
    if (real !== join(this.root, ...path) || now.ino !== opened.ino || now.dev !== opened.dev) {
      throw new FileError(ERRNO.ELOOP, "it leads elsewhere");
    }
  }

  /** Quick path for most entries; undefined for the others. */
  #entry(found: EntryStat, path: string): FolderStat | undefined {
    const { mode, size, mtime, mtimeNs, ctime, ctimeNs, nlink, ino, dev } = found;
    const kind = kindOf(mode);
    if (kind === "special" || !this.visible(path, kind === "directory")) return undefined;
    return {
      kind,
      mode,
      size: kind === "directory" ? 4096 : size,
      mtime,
      mtimeNs,
      nlink,
      ino,
      dev,
      // Setting any time of a file sets its ctime to the clock.
      stamp: `${ctime}.${ctimeNs}.${ino}`,
    };
  }

  #shown(path: readonly string[], info: Deno.FileInfo): FolderStat {
    const kind = info.isDirectory
      ? "directory"
      : info.isSymlink
      ? "symlink"
      : info.isFile
      ? "file"
      : undefined;
    if (!kind) throw missing(path);
    if (path.length > 0 && !this.visible(path.join("/"), kind === "directory")) {
      throw missing(path);
    }
    return {
      kind,
      mode: TYPE_BITS[kind] | permissionsOf(info),
      size: kind === "directory" ? 4096 : info.size,
      ...timesOf(info),
      nlink: info.nlink ?? 1,
      ino: info.ino ?? 0,
      dev: info.dev,
      stamp: [info.mtime, info.ctime].map((time) => time?.getTime() ?? 0).join(".") +
        `.${info.ino}`,
    };
  }

  /**
   * Calls `use` with a path that leads to the entry, and nowhere else, during the call. `within`:
   * the entry is a folder and the path leads into it; a link is not followed.
   */
  #at<R>(
    parts: readonly string[],
    use: (host: string) => R,
    within = false,
  ): R {
    for (const part of parts) if (!isEntryName(part)) throw missing(parts);
    if (!LINUX) return this.#portable(parts, use, within);
    if (this.#fd === undefined) throw missing(parts);
    let fd = this.#fd;
    try {
      const through = within ? parts : parts.slice(0, -1);
      for (const [index, part] of through.entries()) {
        const next = hostFiles().folder(`/proc/self/fd/${fd}/${part}`);
        if (fd !== this.#fd) hostFiles().close(fd);
        fd = next;
        const inside = through.slice(0, index + 1).join("/");
        if (!this.visible(inside, true)) throw missing(parts);
      }
      return use(`/proc/self/fd/${fd}/${within ? "." : parts.at(-1) ?? "."}`);
    } finally {
      if (fd !== this.#fd) hostFiles().close(fd);
    }
  }

  #portable<R>(parts: readonly string[], use: (host: string) => R, within: boolean): R {
    const through = within ? parts : parts.slice(0, -1);
    for (let depth = 1; depth <= through.length; depth++) {
      const host = join(this.root, ...through.slice(0, depth));
      if (!Deno.lstatSync(host).isDirectory) {
        throw new FileError(ERRNO.ENOTDIR, "it is not a folder");
      }
      if (!this.visible(through.slice(0, depth).join("/"), true)) throw missing(parts);
    }
    const folder = join(this.root, ...through);
    const result = use(join(this.root, ...parts));
    // The folder was exchanged for a link meanwhile: the result is dropped.
    if (Deno.realPathSync(folder) !== folder) {
      if (typeof (result as { fd?: number })?.fd === "number") {
        hostFiles().close((result as { fd: number }).fd);
      }
      throw new FileError(ERRNO.ELOOP, "it leads elsewhere");
    }
    return result;
  }
}
