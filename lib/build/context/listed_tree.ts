/** A caller's tree known from its listing, walked without a look at the disk, in the order of `walk`. */
import { compareRaw } from "../../base/raw_string.ts";
import { lstat } from "../../sys/files.ts";
import type { Ignore } from "../parse/ignore.ts";
import type { RemoteEntry } from "./remote.ts";
import type { KnownEntry, KnownTree } from "./tree.ts";

/** Links have no permissions of their own. */
const LINK_MODE = 0o777;

export class ListedTree implements KnownTree {
  /** For each path of a hard-linked file, the first path of that file. */
  readonly names = new Map<string, string>();
  #names = new Map<string, string[]>();
  #sorted = new Set<string>();

  /** `entries` must not change while this object is used; a folder comes before its contents. */
  constructor(readonly root: string, readonly entries: ReadonlyMap<string, RemoteEntry>) {
    for (const { path, type, link } of entries.values()) {
      if (type === "file" && link !== undefined) this.names.set(path, link).set(link, link);
      const slash = path.lastIndexOf("/");
      const parent = slash < 0 ? "" : path.slice(0, slash);
      const name = path.slice(slash + 1);
      const names = this.#names.get(parent);
      if (names) names.push(name);
      else this.#names.set(parent, [name]);
    }
  }

  *walk(path: string, exclude?: Ignore): Generator<KnownEntry> {
    const stack = [""];
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      const inside = at === "" ? path : path === "" ? at : `${path}/${at}`;
      const entry = this.#entry(inside);
      if (!entry) continue;
      const { type: kind, size, mtime, mtimeNs, link } = entry;
      if (at !== "" && exclude?.excludes(at)) {
        if (kind !== "directory" || exclude.canSkipDir(at)) continue;
      }
      const mode = kind === "symlink" ? LINK_MODE : entry.mode;
      yield { path: at, inside, kind, mode, size, mtime, mtimeNs, link };
      if (kind !== "directory") continue;
      const names = this.#namesOf(inside);
      for (let index = names.length - 1; index >= 0; index--) {
        stack.push(at === "" ? names[index] : `${at}/${names[index]}`);
      }
    }
  }

  #entry(inside: string): Omit<RemoteEntry, "path" | "stamp"> | undefined {
    if (inside !== "") return this.entries.get(inside);
    // The listing has no entry for the root itself: its mode and time are those of the local folder.
    const { mode, mtime, mtimeNs } = lstat(this.root);
    return { type: "directory", mode: mode & 0o7777, size: 0, mtime, mtimeNs };
  }

  #namesOf(folder: string): string[] {
    const names = this.#names.get(folder);
    if (!names) return [];
    if (!this.#sorted.has(folder)) {
      names.sort(compareRaw);
      this.#sorted.add(folder);
    }
    return names;
  }
}
