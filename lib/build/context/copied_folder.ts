/**
 * Records what a COPY of one folder made, entry by entry. The next COPY of that folder starts from the
 * earlier result and copies only what changed. The outcome is the same as copying everything, times included.
 */
import { lstat, mkdir, rmdir, setTimes, tryLstat, unlink } from "../../sys/files.ts";
import { locate } from "../../sys/rooted.ts";
import { type FileBatch, FileCopier, type FileOptions } from "./copy_files.ts";
import { EntryWriter } from "./entry_writer.ts";
import type { Ignore } from "../parse/ignore.ts";
import type { KnownEntry, Tree, TreeEntry } from "./tree.ts";
import { copyBatches } from "./worker_client.ts";

/** One entry, with the fields of {@linkcode KnownEntry}; `content` is a digest or a link target. */
export type CopiedEntry = [
  path: string,
  kind: KnownEntry["kind"],
  mode: number,
  size: number,
  mtime: number,
  mtimeNs: number,
  content: string,
];

export interface CopiedFolder {
  /** In the order in which they were copied; the first is the folder itself, "". */
  entries: CopiedEntry[];
  /** Folders above the destination that the copy wrote to, so that their time is that of the copy. */
  touched: string[];
}

const PATH = 0, KIND = 1, MODE = 2, SIZE = 3, MTIME = 4, MTIME_NS = 5, CONTENT = 6;

/** Entries looked at before other work gets its turn. */
const TURN = 1000;

const turn = () => new Promise<void>((next) => setImmediate(next));

/** The folder's entries; undefined where some of them are not known without reading files. */
export async function listFolder(
  tree: Tree,
  path: string,
  { exclude, signal }: { exclude?: Ignore; signal: AbortSignal },
): Promise<CopiedEntry[] | undefined> {
  if (!tree.known || tree.ownersKept) return undefined;
  const entries: CopiedEntry[] = [];
  for (
    const { path: below, inside, kind, mode, size, mtime, mtimeNs, link } of tree.known.walk(
      path,
      exclude,
    )
  ) {
    // Hard links: one name of an inode cannot be copied again without the others.
    if (tree.names?.has(inside)) return undefined;
    const content = kind === "file" ? tree.digests?.get(inside) : link ?? "";
    if (content === undefined) return undefined;
    entries.push([below, kind, mode, kind === "file" ? size : 0, mtime, mtimeNs, content]);
    if (entries.length % TURN) continue;
    signal.throwIfAborted();
    await turn();
  }
  return entries;
}

/** Total size of the files, in bytes. */
export const bytesOf = (entries: readonly CopiedEntry[]): number =>
  entries.reduce((sum, entry) => sum + entry[SIZE], 0);

export interface FolderChanges {
  /** Each folder before its contents. */
  removed: CopiedEntry[];
  added: CopiedEntry[];
  /** The new state of entries that differ. A folder stays a folder, and no other entry becomes one. */
  changed: CopiedEntry[];
  /** Folders whose only change is the time. */
  retimed: CopiedEntry[];
}

const isFolder = (entry: CopiedEntry) => entry[KIND] === "directory";
const parentOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

/** The smallest part of the entries and bytes that must be unchanged; below it everything is copied again. */
const KEPT_PART = 3 / 4;
/** Bytes that may be new in addition, however small the folder is. */
const SPARE_BYTES = 1 << 20;

/**
 * The changes that turn `before` into `entries`. Undefined where they are so many that copying everything
 * costs no more, or where an entry turned from a folder into something else or back.
 */
export function changesOf(
  before: CopiedFolder,
  entries: readonly CopiedEntry[],
): FolderChanges | undefined {
  const old = new Map(before.entries.map((entry) => [entry[PATH], entry]));
  const changes: FolderChanges = { removed: [], added: [], changed: [], retimed: [] };
  for (const entry of entries) {
    const was = old.get(entry[PATH]);
    old.delete(entry[PATH]);
    if (!was) {
      changes.added.push(entry);
      continue;
    }
    if (isFolder(entry) !== isFolder(was)) return undefined;
    const sameTime = entry[MTIME] === was[MTIME] && entry[MTIME_NS] === was[MTIME_NS];
    // For the copied folder itself only the time counts.
    const same = entry[PATH] === "" ||
      entry[KIND] === was[KIND] && entry[MODE] === was[MODE] && entry[SIZE] === was[SIZE] &&
        entry[CONTENT] === was[CONTENT];
    if (!same || !sameTime && !isFolder(entry)) changes.changed.push(entry);
    else if (!sameTime) changes.retimed.push(entry);
  }
  changes.removed.push(...old.values());
  const { removed, added, changed } = changes;
  const count = removed.length + added.length + changed.length;
  if (count > entries.length * (1 - KEPT_PART)) return undefined;
  if (bytesOf(added) + bytesOf(changed) > bytesOf(entries) * (1 - KEPT_PART) + SPARE_BYTES) {
    return undefined;
  }
  return changes;
}

/** A COPY's destination folder, which notes the times of the folders above it for `touched`. */
export class FolderTarget {
  readonly inside: string;
  #root: string;
  #before: Map<string, string | undefined>;

  constructor(root: string, destination: string) {
    this.#root = root;
    this.inside = locate(root, destination).inside;
    const parts = this.inside === "" ? [] : this.inside.split("/");
    const way = ["", ...parts.map((_, index) => parts.slice(0, index + 1).join("/"))];
    this.#before = new Map(way.map((path) => [path, this.#time(path)]));
  }

  /** Folders above the destination that were written to since this object was made. */
  touched(): string[] {
    const found: string[] = [];
    for (const [path, time] of this.#before) {
      if (time !== this.#time(path) && path !== this.inside) found.push(path);
    }
    return found;
  }

  #time(path: string): string | undefined {
    const stat = tryLstat(path === "" ? this.#root : `${this.#root}/${path}`);
    return stat && `${stat.mtime}.${stat.mtimeNs}`;
  }
}

export interface AmendTarget extends FileOptions {
  /** A mounted root with the result of the earlier COPY (`before`). */
  root: string;
  destination: string;
  /** Opens the root as it was before the earlier COPY. */
  base: () => Promise<{ root: string } & AsyncDisposable>;
}

/** Files that are copied without a Worker. */
const FEW_FILES = 200;
const FEW_BYTES = 2 << 20;

/**
 * Turns the earlier copy `before` into a copy of the folder `path` of `tree` as it is now. False where that
 * is not possible: the caller then throws the root away and copies everything.
 */
export async function amendFolder(
  tree: Tree,
  path: string,
  before: CopiedFolder,
  entries: readonly CopiedEntry[],
  changes: FolderChanges,
  target: AmendTarget,
): Promise<boolean> {
  const { root, destination, signal } = target;
  const { removed, added, changed, retimed } = changes;
  const { inside } = locate(root, destination);
  const at = (path: string) => [root, inside, path].filter((part) => part !== "").join("/");
  if (added.some(([path]) => tryLstat(at(path)))) return false;
  if (removed.length > 0) {
    // Without the removed entry, an entry of the base with the same name would have to show again.
    await using base = await target.base();
    if (removed.some(([path]) => tryLstat(`${base.root}/${inside}/${path}`))) return false;
  }
  const writer = new EntryWriter(target);
  /** Folders whose time has to be set again, because entries in them change. */
  const written = new Set(retimed.map((entry) => entry[PATH]));
  for (const entry of [...removed].reverse()) {
    (isFolder(entry) ? rmdir : unlink)(at(entry[PATH]));
    written.add(parentOf(entry[PATH]));
  }
  const files = new Map<string, FileBatch>();
  for (const [entry, isNew] of inOrder(entries, added, changed)) {
    const source = sourceOf(tree, path, entry);
    const host = at(entry[PATH]);
    if (isFolder(entry)) {
      if (isNew) mkdir(host, 0o755);
      writer.attributes(source, host);
      written.add(entry[PATH]);
      if (!isNew) continue;
    } else {
      if (!isNew) unlink(host);
      if (entry[KIND] === "file") later(files, source.host, host);
      else writer.make(source, host);
    }
    written.add(parentOf(entry[PATH]));
  }
  await copyFiles([...files.values()], bytesOf([...added, ...changed]), target);
  for (const entry of entries) {
    if (!isFolder(entry) || !written.has(entry[PATH])) continue;
    setTimes(at(entry[PATH]), entry[MTIME], entry[MTIME_NS]);
  }
  // A full copy would write to these folders now.
  const now = Date.now();
  const [seconds, ms] = [Math.floor(now / 1000), now % 1000];
  for (const path of before.touched) {
    setTimes(path === "" ? root : `${root}/${path}`, seconds, ms * 1e6);
  }
  signal?.throwIfAborted();
  return true;
}

/** The entries of `added` and `changed` in the order of `entries`: each folder before its contents. */
function* inOrder(
  entries: readonly CopiedEntry[],
  added: readonly CopiedEntry[],
  changed: readonly CopiedEntry[],
): Generator<[entry: CopiedEntry, isNew: boolean]> {
  const fresh = new Set(added), other = new Set(changed);
  for (const entry of entries) {
    if (fresh.has(entry)) yield [entry, true];
    else if (other.has(entry)) yield [entry, false];
  }
}

function sourceOf(tree: Tree, path: string, entry: CopiedEntry): TreeEntry {
  const host = [tree.root, path, entry[PATH]].filter((part) => part !== "").join("/");
  return { path: entry[PATH], host, kind: entry[KIND], stat: lstat(host) };
}

function later(files: Map<string, FileBatch>, from: string, to: string): void {
  const folder = parentOf(to);
  let batch = files.get(folder);
  if (!batch) files.set(folder, batch = { from: parentOf(from), to: folder, names: [] });
  batch.names.push(to.slice(folder.length + 1));
}

async function copyFiles(
  files: FileBatch[],
  bytes: number,
  { owner, chmod, signal }: FileOptions,
): Promise<void> {
  const count = files.reduce((sum, { names }) => sum + names.length, 0);
  if (count > FEW_FILES || bytes > FEW_BYTES) {
    return await copyBatches(files, { owner, chmod, signal });
  }
  using copier = new FileCopier({ owner, chmod, signal });
  await copier.batches(files);
}
