/**
 * The merged view of overlay's lower folders, looked up path by path without a mount. The native driver has
 * one plain folder, which is then the view.
 */
import { type FileStat, S_IFCHR, S_IFDIR, S_IFMT, tryLstat } from "../sys/files.ts";
import { readNames } from "../sys/directory.ts";
import { inUserNamespace } from "../sys/userns.ts";
import { getXattr } from "../sys/xattr.ts";

/**
 * Overlay's attribute of an opaque folder, which hides the folders below it; in a user namespace
 * (`userxattr`) it has another name.
 */
export const opaqueXattr = (): string =>
  inUserNamespace() ? "user.overlay.opaque" : "trusted.overlay.opaque";

/** A file's metadata and its real path. */
export interface Found {
  path: string;
  stat: FileStat;
}

export const isDirectory = (stat: FileStat): boolean => (stat.mode & S_IFMT) === S_IFDIR;

/** Overlay's mark for a deleted name: a character device 0:0. */
export const isWhiteout = (stat: FileStat): boolean =>
  (stat.mode & S_IFMT) === S_IFCHR && stat.rdevMajor === 0 && stat.rdevMinor === 0;

/** True for a folder that hides the same folder in the layers below. */
export const isOpaque = (path: string): boolean => getXattr(path, opaqueXattr())?.[0] === 121;

/** The folder part of a path in the tree; "" is the root. */
export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf("/")));

export const baseOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

export const joinPath = (folder: string, name: string): string =>
  folder === "" ? name : `${folder}/${name}`;

export class LowerTree {
  #folders: string[];
  #overlay: boolean;
  /** Path in the tree → the real folders that are merged there, topmost first. */
  #cache = new Map<string, string[]>();

  /** `folders`: topmost first. `overlay`: white-outs and opaque marks count. */
  constructor(folders: string[], overlay: boolean) {
    this.#folders = folders;
    this.#overlay = overlay;
  }

  /** The view's entry at `path` ("" is the root); links are not followed. */
  lookup(path: string): Found | undefined {
    if (path === "") {
      const stat = this.#folders.length > 0 ? tryLstat(this.#folders[0]) : undefined;
      return stat && { path: this.#folders[0], stat };
    }
    const name = baseOf(path);
    for (const folder of this.#layersOf(parentOf(path))) {
      const full = `${folder}/${name}`;
      const stat = tryLstat(full);
      if (!stat) continue;
      return this.#overlay && isWhiteout(stat) ? undefined : { path: full, stat };
    }
    return undefined;
  }

  /** Names of the view's folder `path`; none where there is no folder. */
  names(path: string): string[] {
    const seen = new Set<string>();
    const shown: string[] = [];
    for (const folder of this.#layersOf(path)) {
      for (const name of readNames(folder)) {
        if (seen.has(name)) continue;
        seen.add(name);
        const stat = this.#overlay ? tryLstat(`${folder}/${name}`) : undefined;
        if (!stat || !isWhiteout(stat)) shown.push(name);
      }
    }
    return shown;
  }

  #layersOf(path: string): string[] {
    if (path === "") return this.#folders;
    const known = this.#cache.get(path);
    if (known) return known;
    const layers: string[] = [];
    const name = baseOf(path);
    for (const folder of this.#layersOf(parentOf(path))) {
      const full = `${folder}/${name}`;
      const stat = tryLstat(full);
      if (!stat) continue;
      if (!isDirectory(stat)) break;
      layers.push(full);
      if (this.#overlay && isOpaque(full)) break;
    }
    this.#cache.set(path, layers);
    return layers;
  }
}
