/**
 * A folder as 9P serves it: read-only and confined. Nothing outside it is reached, whatever links it
 * holds and whoever exchanges folders for links meanwhile: on Linux each part of a path is opened by
 * itself, below the one before, without following a link; elsewhere what was opened is checked again.
 */
import { join } from "../../base/path.ts";
import { systemCode } from "../../base/errors.ts";
import { permissionsOf } from "../../base/fs.ts";
import type { Entry, EntryStat } from "../../sys/entry_stat.ts";
import { hostFiles } from "./host_files.ts";
import { ERRNO } from "./messages.ts";

/** An answer of the protocol: one of Linux's error numbers. */
export class NinepError extends Error {
  constructor(readonly errno: number, what: string) {
    super(what);
  }
}

export type NodeKind = "file" | "directory" | "symlink";

export interface NodeStat {
  kind: NodeKind;
  /** With the type's bits, as Linux has them. */
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
const TYPE_BITS: Record<NodeKind, number> = {
  file: 0o100000,
  directory: 0o040000,
  symlink: 0o120000,
};

const TYPE_MASK = 0o170000;
const KIND_OF: Record<number, NodeKind> = Object.fromEntries(
  Object.entries(TYPE_BITS).map(([kind, bits]) => [bits, kind as NodeKind]),
);

const CODES: Record<string, number> = {
  ENOENT: ERRNO.ENOENT,
  ENOTDIR: ERRNO.ENOTDIR,
  ELOOP: ERRNO.ELOOP,
  EACCES: ERRNO.EACCES,
  EPERM: ERRNO.EPERM,
  EMFILE: ERRNO.EMFILE,
  ENAMETOOLONG: ERRNO.ENAMETOOLONG,
};

/** Any failure as an answer. */
export function asNinepError(error: unknown): NinepError {
  if (error instanceof NinepError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new NinepError(CODES[systemCode(error) ?? ""] ?? ERRNO.EIO, message);
}

const missing = (path: readonly string[]) =>
  new NinepError(ERRNO.ENOENT, `${path.join("/")} is not there`);

/** Names that lead anywhere but to an entry of their folder. */
function isEntryName(name: string): boolean {
  if (name === "" || name === "." || name === ".." || /[/\0]/.test(name)) return false;
  return Deno.build.os !== "windows" || !/[\\:]/.test(name);
}

/** Closes `fd`. */
function readUpTo(fd: number, most: number): Uint8Array {
  try {
    const bytes = new Uint8Array(most);
    let size = 0;
    // A file of the expected size, one byte less than `most`, takes one call.
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

/** What the runtime tells has milliseconds. */
function timesOf({ mtime }: Deno.FileInfo): Pick<NodeStat, "mtime" | "mtimeNs"> {
  const ms = mtime?.getTime() ?? 0;
  const seconds = Math.floor(ms / 1000);
  return { mtime: seconds, mtimeNs: (ms - seconds * 1000) * 1e6 };
}

export class ConfinedFolder implements Disposable {
  #root: string;
  /** Held open, so that the root stays the same folder. */
  #fd: number | undefined;
  #visible: (path: string, directory: boolean) => boolean;

  /** Throws the system's error where `root` is no folder. */
  constructor(root: string, options: FolderOptions = {}) {
    this.#root = Deno.realPathSync(root);
    this.#visible = options.visible ?? (() => true);
    if (LINUX) this.#fd = hostFiles().folder(this.#root);
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) hostFiles().close(this.#fd);
    this.#fd = undefined;
  }

  /** Throws ENOENT for what is not there, hidden, or neither file, folder nor link. */
  stat(path: readonly string[]): NodeStat {
    return this.#at(path, (host) => {
      const known = hostFiles().entry?.(host);
      const stat = known && this.#entry(known, path.join("/"));
      return stat ?? this.#shown(path, Deno.lstatSync(host));
    });
  }

  /** Entries that are shown, in the order of their names' UTF-16 units; `others` gets what never is. */
  list(
    path: readonly string[],
    others?: (name: string, info: Deno.FileInfo | undefined) => void,
  ): { name: string; stat: NodeStat }[] {
    return this.#at(path, (host) => {
      const prefix = path.map((part) => `${part}/`).join("");
      const entries: { name: string; stat: NodeStat }[] = [];
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
          if (asNinepError(error).errno !== ERRNO.ENOENT) throw error;
          others?.(name, info);
        }
      }
      return entries.sort((a, b) => a.name < b.name ? -1 : 1);
    }, true);
  }

  readlink(path: readonly string[]): string {
    if (this.stat(path).kind !== "symlink") throw new NinepError(ERRNO.EINVAL, "it is no link");
    return this.#at(path, (host) => Deno.readLinkSync(host));
  }

  /** A descriptor of a file; the caller closes it. */
  open(path: readonly string[]): { fd: number; size: number } {
    return this.#at(path, (host) => this.#opened(path, host));
  }

  /**
   * What files of one folder hold, of each up to `most` bytes, or why it cannot be read. Throws nothing:
   * what stands in the way of the folder is the answer for each.
   */
  readFiles(
    path: readonly string[],
    files: readonly { name: string; most: number }[],
  ): (Uint8Array | NinepError)[] {
    try {
      return this.#at(path, (host) =>
        files.map(({ name, most }) => {
          try {
            if (!isEntryName(name)) throw missing([...path, name]);
            return readUpTo(this.#opened([...path, name], `${host}/${name}`).fd, most);
          } catch (error) {
            return asNinepError(error);
          }
        }), true);
    } catch (error) {
      const answer = asNinepError(error);
      return files.map(() => answer);
    }
  }

  #opened(path: readonly string[], host: string): { fd: number; size: number } {
    // Opening a device could do something: only files are.
    if (this.#shown(path, Deno.lstatSync(host)).kind !== "file") {
      throw new NinepError(ERRNO.EISDIR, "it is no file");
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

  /** What stands at a path at the moment it is opened here must be what was opened. */
  #recheck(
    path: readonly string[],
    host: string,
    opened: Pick<Deno.FileInfo, "ino" | "dev">,
  ): void {
    const real = Deno.realPathSync(host);
    const now = Deno.lstatSync(host);
    if (real !== join(this.#root, ...path) || now.ino !== opened.ino || now.dev !== opened.dev) {
      throw new NinepError(ERRNO.ELOOP, "it leads elsewhere");
    }
  }

  /** What most entries are, in a fraction of the time; undefined for the others. */
  #entry(found: EntryStat, path: string): NodeStat | undefined {
    const { mode, size, mtime, mtimeNs, ctime, ctimeNs, nlink, ino, dev } = found;
    const kind = KIND_OF[mode & TYPE_MASK];
    if (!kind || !this.#visible(path, kind === "directory")) return undefined;
    return {
      kind,
      mode,
      size: kind === "directory" ? 4096 : size,
      mtime,
      mtimeNs,
      nlink,
      ino,
      dev,
      // Whoever sets another time sets this one to the clock.
      stamp: `${ctime}.${ctimeNs}.${ino}`,
    };
  }

  #shown(path: readonly string[], info: Deno.FileInfo): NodeStat {
    const kind = info.isDirectory
      ? "directory"
      : info.isSymlink
      ? "symlink"
      : info.isFile
      ? "file"
      : undefined;
    if (!kind) throw missing(path);
    if (path.length > 0 && !this.#visible(path.join("/"), kind === "directory")) {
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
   * Calls `use` with a name of the entry that leads there and nowhere else for the time of the call;
   * `within`: of the folder itself, not followed where it is a link.
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
        if (!this.#visible(inside, true)) throw missing(parts);
      }
      return use(`/proc/self/fd/${fd}/${within ? "." : parts.at(-1) ?? "."}`);
    } finally {
      if (fd !== this.#fd) hostFiles().close(fd);
    }
  }

  #portable<R>(parts: readonly string[], use: (host: string) => R, within: boolean): R {
    const through = within ? parts : parts.slice(0, -1);
    for (let depth = 1; depth <= through.length; depth++) {
      const host = join(this.#root, ...through.slice(0, depth));
      if (!Deno.lstatSync(host).isDirectory) throw new NinepError(ERRNO.ENOTDIR, "it is no folder");
      if (!this.#visible(through.slice(0, depth).join("/"), true)) throw missing(parts);
    }
    const folder = join(this.#root, ...through);
    const result = use(join(this.#root, ...parts));
    // Exchanged for a link while it was used: what came out is not passed on.
    if (Deno.realPathSync(folder) !== folder) {
      if (typeof (result as { fd?: number })?.fd === "number") {
        hostFiles().close((result as { fd: number }).fd);
      }
      throw new NinepError(ERRNO.ELOOP, "it leads elsewhere");
    }
    return result;
  }
}
