/**
 * What a workload has changed in its image's files. Its folder of changes is walked by descriptors, since it may swap
 * files meanwhile; the trees below are nobody's to change.
 */
import { compareRaw } from "../../../base/raw_string.ts";
import { SvcError } from "../../../base/errors.ts";
import { isDirectory, isOpaque, isWhiteout, joinPath, LowerTree } from "../../../snapshot/lower.ts";
import { readNames } from "../../../sys/directory.ts";
import { hasCode } from "../../../sys/errno.ts";
import type { FileStat } from "../../../sys/files.ts";
import type { FileChange } from "../../caps.ts";
import { behind, DEEPEST, entryOf, type Place } from "./place.ts";

/** Most changes that are told. */
const MOST = 200_000;

export interface ChangesOf {
  /** The tree below: overlay's lower folders, topmost first, or the whole tree that this one was copied from. */
  lower: string[];
  /** The root holds changes alone, in overlay's form. */
  overlay: boolean;
  /** Where something is mounted: what was made for a mount is none of the workload's changes. */
  mounted: string[];
}

/** Undefined where it has gone meanwhile. */
function present(folder: number, name: string): Place | undefined {
  try {
    return entryOf(folder, name);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

const isSameNode = (a: FileStat, b: FileStat) =>
  a.mode === b.mode && a.uid === b.uid && a.gid === b.gid;

const isSame = (a: FileStat, b: FileStat) =>
  isSameNode(a, b) && a.mtime === b.mtime && a.mtimeNs === b.mtimeNs &&
  (isDirectory(a) || a.size === b.size);

class Changes {
  readonly found: FileChange[] = [];
  readonly #lower: LowerTree;
  readonly #overlay: boolean;
  readonly #mounted: ReadonlySet<string>;

  constructor({ lower, overlay, mounted }: ChangesOf) {
    this.#lower = new LowerTree(lower, overlay);
    this.#overlay = overlay;
    this.#mounted = new Set(mounted);
  }

  #tell(path: string, kind: FileChange["kind"]): void {
    this.found.push({ path: `/${path}`, kind });
    if (this.found.length <= MOST) return;
    throw new SvcError("too_large", `Cannot tell what changed: more than ${MOST} files did`, {
      help: "copy the folders that matter: svc cp",
    });
  }

  /** `below`: the tree below has such a folder. True where something in it was made for a mount. */
  folder(fd: number, path: string, below: boolean, depth = 0): boolean {
    if (depth > DEEPEST) {
      throw new SvcError("too_large", `Cannot tell what changed in /${path}: it is too deep`);
    }
    const here = readNames(behind(fd));
    // The folder itself, and not the link to it.
    const whole = !this.#overlay || isOpaque(behind(fd, "."));
    const names = new Set(below && whole ? [...here, ...this.#lower.names(path)] : here);
    let hasMounts = false;
    for (const name of [...names].sort(compareRaw)) {
      const child = joinPath(path, name);
      const old = below ? this.#lower.lookup(child)?.stat : undefined;
      using entry = present(fd, name);
      if (!entry || this.#overlay && isWhiteout(entry.stat)) {
        if (old) this.#tell(child, "deleted");
      } else if (!old && this.#mounted.has(`/${child}`)) hasMounts = true;
      else if (this.#entry(entry, child, old, depth)) hasMounts = true;
    }
    return hasMounts;
  }

  /** True where all that there is to tell of a folder was made for mounts. */
  #entry({ fd, stat }: Place, path: string, old: FileStat | undefined, depth: number): boolean {
    const at = this.found.length;
    // A whole tree has what did not change, too.
    if (!old || this.#overlay || !isSame(stat, old)) this.#tell(path, old ? "modified" : "added");
    if (!isDirectory(stat)) return false;
    const told = this.found.length;
    const hasMounts = this.folder(fd, path, old !== undefined && isDirectory(old), depth + 1);
    const only = hasMounts && this.found.length === told && (!old || isSameNode(stat, old));
    if (only) this.found.length = at;
    return only;
  }
}

/** In the order of paths, a folder before what is in it. Throws `too_large`. */
export function changesIn(root: number, of: ChangesOf): FileChange[] {
  const changes = new Changes(of);
  changes.folder(root, "", true);
  return changes.found;
}
