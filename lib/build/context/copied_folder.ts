/**
 * What a COPY of one folder made, entry by entry, and how another one makes its own from it: where little
 * has changed, only that is copied. The result is the one that copying everything gives, times included.
 */
import { lstat, mkdir, rmdir, setTimes, tryLstat, unlink } from "../../sys/files.ts";
import { locate } from "../../sys/rooted.ts";
import { type FileBatch, FileCopier, type FileOptions } from "./copy_files.ts";
import { EntryWriter } from "./entry_writer.ts";
import type { Ignore } from "../parse/ignore.ts";
import type { KnownEntry, Tree, TreeEntry } from "./tree.ts";
import { copyBatches } from "./worker_client.ts";

/** An entry as {@linkcode KnownEntry} has it, its content by digest or link. */
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
  /** Folders on the way to the destination that were written to and have the time of that. */
  touched: string[];
}

const PATH = 0, KIND = 1, MODE = 2, SIZE = 3, MTIME = 4, MTIME_NS = 5, CONTENT = 6;

/** Entries looked at before other work gets its turn. */
const TURN = 1000;

const turn = () => new Promise<void>((next) => setImmediate(next));

/** What is in the folder; undefined where that is not all known without a look at the files. */
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
    // Of one inode with several names not one alone can be copied again.
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

/** Bytes of the files. */
export const bytesOf = (entries: readonly CopiedEntry[]): number =>
  entries.reduce((sum, entry) => sum + entry[SIZE], 0);

export interface FolderChanges {
  /** Folders before what was in them. */
  removed: CopiedEntry[];
  added: CopiedEntry[];
  /** As they are now; the kind may be another, but no folder's. */
  changed: CopiedEntry[];
  /** Folders of both that are not in `changed`, but have another time. */
  retimed: CopiedEntry[];
}

const isFolder = (entry: CopiedEntry) => entry[KIND] === "directory";
const parentOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

/** Of what is left as it is, at least this part has to be there: else all is copied anew. */
const KEPT_PART = 3 / 4;
/** Of bytes so much may be new beside that. */
const SPARE_BYTES = 1 << 20;

/**
 * What has to be done to `before` so that `entries` come of it. Undefined where that is so much that copying all is as well, or where it takes more than these lists
 * to tell what copying would give.
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
    // Of the folder itself nothing but its time is copied.
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

/** Where a folder goes in a mounted root, before and after it is copied: for `touched`. */
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

  /** Folders that were written to since this was made. */
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
  /** A mounted root with what `before` made. */
  root: string;
  destination: string;
  /** The root as it was before that copy. */
  base: () => Promise<{ root: string } & AsyncDisposable>;
}

/** Files that are copied without a Worker. */
const FEW_FILES = 200;
const FEW_BYTES = 2 << 20;

/**
 * Makes of what `before` copied what copying the folder `path` of `tree` gives. False where that cannot be
 * done so; the root is good for nothing then.
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
    // What the base has of that name would have to show again.
    await using base = await target.base();
    if (removed.some(([path]) => tryLstat(`${base.root}/${inside}/${path}`))) return false;
  }
  const writer = new EntryWriter(target);
  /** Folders whose time is another by what is done to them. */
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
  // As if they were written to now.
  const now = Date.now();
  const [seconds, ms] = [Math.floor(now / 1000), now % 1000];
  for (const path of before.touched) {
    setTimes(path === "" ? root : `${root}/${path}`, seconds, ms * 1e6);
  }
  signal?.throwIfAborted();
  return true;
}

/** Those of the two lists in the order of the whole: folders before what is in them. */
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
