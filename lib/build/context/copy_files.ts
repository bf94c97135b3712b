/** Copies the regular files of a COPY by descriptor: looking a path up takes longer than changing the file. */
import { chmodFd, chownFd, cloneFd, close, read, writeAll } from "../../sys/fd.ts";
import { type FileStat, O, setTimesFd, statFd } from "../../sys/files.ts";
import { OpenFolder } from "../../sys/open_folder.ts";
import { READING } from "../../sys/rooted_file.ts";
import { hasXattrs, readXattrs, setXattr } from "../../sys/xattr.ts";
import { parseChmod } from "./chmod.ts";
import { isCopied } from "./tree.ts";

export interface FileOptions {
  owner?: { uid: number; gid: number };
  /** As `--chmod` has it. */
  chmod?: string;
  signal?: AbortSignal;
}

/** Files of one folder that are copied to a new folder under the same names. */
export interface FileBatch {
  from: string;
  to: string;
  names: string[];
}

/** Bytes, and files, that are copied before other work gets its turn. */
const SLICE = 1 << 20;
const TURN = 500;
/** Filled and emptied between two waits, never across one. */
const buffer = new Uint8Array(256 * 1024);

const turn = () => new Promise<void>((next) => setImmediate(next));

export class FileCopier implements Disposable {
  #options: FileOptions;
  #mode: ((mode: number, directory: boolean) => number) | undefined;
  #from = new OpenFolder();
  #to = new OpenFolder();
  /** The last folder, mode and owner for which a new file had that mode and owner without chmod and chown. */
  #settled = "";
  /** True until the first failed reflink: copies then share the source's blocks. */
  #clones = true;

  constructor(options: FileOptions) {
    this.#options = options;
    this.#mode = options.chmod === undefined ? undefined : parseChmod(options.chmod);
  }

  /** `stat`: the source's. */
  async copy(stat: FileStat, from: string, to: string): Promise<void> {
    const { uid, gid } = this.#options.owner ?? stat;
    const kept = stat.mode & 0o7777;
    const mode = this.#mode?.(kept, false) ?? kept;
    const [above, original] = cut(from);
    const [folder, name] = cut(to);
    const source = this.#from.at(above).open(original, READING | O.NOFOLLOW);
    try {
      // Writing clears setuid and setgid, so a mode with them is set at the end.
      const first = mode <= 0o777 ? mode : 0o600;
      const flags = O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW;
      const target = this.#to.at(folder).open(name, flags, first);
      try {
        this.#clones = this.#clones && cloneFd(target, source);
        if (!this.#clones) await this.#data(source, from, target, to);
        const wanted = `${folder} ${mode} ${uid} ${gid}`;
        if (this.#settled !== wanted) {
          if (isLike(target, mode, uid, gid)) this.#settled = wanted;
          else {
            // Owner before mode: chown clears setuid bits and capabilities.
            chownFd(target, uid, gid, to);
            chmodFd(target, mode, to);
          }
        }
        if (hasXattrs(source)) {
          for (const [key, value] of readXattrs(from)) {
            if (isCopied(key)) setXattr(to, key, value);
          }
        }
        setTimesFd(target, stat.mtime, stat.mtimeNs, to);
      } finally {
        close(target);
      }
    } finally {
      close(source);
    }
  }

  async batches(batches: readonly FileBatch[]): Promise<void> {
    let seen = 0;
    for (const { from, to, names } of batches) {
      for (const name of names) {
        const stat = this.#from.at(from).lstat(name);
        await this.copy(stat, `${from}/${name}`, `${to}/${name}`);
        if (++seen % TURN) continue;
        this.#options.signal?.throwIfAborted();
        await turn();
      }
    }
  }

  /** Forgets what is known of folders: other folders may later have the same paths. */
  [Symbol.dispose](): void {
    this.#from.close();
    this.#to.close();
    this.#settled = "";
  }

  async #data(source: number, from: string, target: number, to: string): Promise<void> {
    let moved = 0;
    for (let n = read(source, buffer, from); n > 0; n = read(source, buffer, from)) {
      writeAll(target, buffer.subarray(0, n), to);
      moved += n;
      if (moved < SLICE) continue;
      moved = 0;
      this.#options.signal?.throwIfAborted();
      await turn();
    }
  }
}

/** Splits a path into folder and name. */
function cut(host: string): [folder: string, name: string] {
  const slash = host.lastIndexOf("/");
  return [host.slice(0, slash), host.slice(slash + 1)];
}

function isLike(fd: number, mode: number, uid: number, gid: number): boolean {
  const stat = statFd(fd);
  return (stat.mode & 0o7777) === mode && stat.uid === uid && stat.gid === gid;
}
