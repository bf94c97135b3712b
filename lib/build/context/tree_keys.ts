/**
 * Keys of the content that COPY, ADD and bind mounts select from a tree, without its times (DESIGN.md section
 * 9).
 */
import { createHash } from "node:crypto";
import { close, read } from "../../sys/fd.ts";
import { readlink, S_IFMT } from "../../sys/files.ts";
import { openRegular } from "../../sys/rooted_file.ts";
import { listXattrs } from "../../sys/xattr.ts";
import { type Ignore, pathsAtOnce } from "../parse/ignore.ts";
import {
  isCopied,
  type KnownTree,
  type LazyTree,
  parentEntry,
  type Selection,
  type Tree,
  TURN,
  walk,
} from "./tree.ts";

/** The part of a selection's parent folders that counts as content. */
function parentFields(tree: Tree, { folders = [] }: Selection): unknown[] {
  return folders.map((path) => {
    const stat = parentEntry(tree, path)?.stat;
    return stat && [stat.mode & 0o7777, ...tree.ownersKept ? [stat.uid, stat.gid] : []];
  });
}

/** Largest file, in bytes, that is read in this thread: handing it to another one takes longer. */
const SMALL = 64 * 1024;
const small = new Uint8Array(SMALL);

/** sha256 of a file's bytes, in hex. `size`: expected bytes. */
export async function fileDigest(
  host: string,
  size: number,
  signal?: AbortSignal,
): Promise<string> {
  const hash = createHash("sha256");
  signal?.throwIfAborted();
  const fd = openRegular(host);
  let opening: Promise<Deno.FsFile>;
  try {
    if (size < SMALL) {
      for (let n = read(fd, small, host); n > 0; n = read(fd, small, host)) {
        hash.update(small.subarray(0, n));
      }
      return hash.digest("hex");
    }
    opening = Deno.open(`/proc/self/fd/${fd}`);
    await opening;
  } finally {
    close(fd);
  }
  using file = await opening;
  const buffer = new Uint8Array(256 * 1024);
  for (let n = await file.read(buffer); n !== null; n = await file.read(buffer)) {
    signal?.throwIfAborted();
    hash.update(buffer.subarray(0, n));
  }
  return hash.digest("hex");
}

/** Most keys kept for one tree. */
const MAX_KEYS = 256;

const nameOf = (selections: readonly Selection[]) =>
  JSON.stringify(selections.map(({ path, name }) => [path, name]));

/**
 * sha256 in hex over names, types, modes, sizes, contents and link targets, and over owners where they are
 * kept. Times are not part of the key: they differ between builds of equal content.
 */
export async function contentKey(
  tree: Tree,
  selections: Selection[],
  options: { exclude?: Ignore; signal?: AbortSignal } = {},
): Promise<string> {
  await tree.fill?.(selections, options);
  const { known, keys } = tree;
  if (known) {
    const name = keys && !options.exclude ? nameOf(selections) : undefined;
    const kept = name === undefined ? undefined : keys!.get(name);
    if (kept !== undefined) return kept;
    const key = await knownKey({ ...tree, known }, selections, options);
    if (name !== undefined && keys!.size < MAX_KEYS) keys!.set(name, key);
    return key;
  }
  const hash = createHash("sha256");
  for (const selection of selections) {
    if (selection.folders) hash.update(JSON.stringify(parentFields(tree, selection)) + "\n");
    for await (const entry of walk(tree, selection.path, options)) {
      const { stat, kind } = entry;
      const fields: unknown[] = [selection.name, entry.path, kind, stat.mode & 0o7777];
      if (kind === "file") {
        const path = [selection.path, entry.path].filter((part) => part !== "").join("/");
        const known = tree.digests?.get(path);
        fields.push(stat.size, known ?? await fileDigest(entry.host, stat.size, options.signal));
      } else if (kind === "symlink") fields.push(readlink(entry.host));
      else if (kind === "other") {
        fields.push(stat.mode & S_IFMT, stat.rdevMajor, stat.rdevMinor);
      }
      if (tree.ownersKept) {
        fields.push(stat.uid, stat.gid);
        if (kind === "file") fields.push(listXattrs(entry.host).filter(isCopied).sort());
      }
      hash.update(JSON.stringify(fields) + "\n");
    }
  }
  return hash.digest("hex");
}

/** {@linkcode contentKey} from known digests, without reading those files; the key is the same. */
async function knownKey(
  tree: Tree & { known: KnownTree },
  selections: Selection[],
  { exclude, signal }: { exclude?: Ignore; signal?: AbortSignal },
): Promise<string> {
  const { root, digests, known } = tree;
  const hash = createHash("sha256");
  const turn = pathsAtOnce(TURN, exclude);
  let text = "";
  let seen = 0;
  for (const selection of selections) {
    if (selection.folders) text += JSON.stringify(parentFields(tree, selection)) + "\n";
    for (const { path, inside, kind, mode, size, link } of known.walk(selection.path, exclude)) {
      const fields: unknown[] = [selection.name, path, kind, mode];
      if (kind === "file") {
        fields.push(
          size,
          digests?.get(inside) ?? await fileDigest(`${root}/${inside}`, size, signal),
        );
      } else if (kind === "symlink") fields.push(link);
      text += JSON.stringify(fields) + "\n";
      if (++seen % turn) continue;
      hash.update(text);
      text = "";
      signal?.throwIfAborted();
      await new Promise<void>((next) => setImmediate(next));
    }
  }
  return hash.update(text).digest("hex");
}

/** {@linkcode contentKey} for a tree that is read on demand: stamps stand for contents. */
export async function stampKey(
  tree: Tree & { lazy: LazyTree },
  selections: Selection[],
  options: { signal?: AbortSignal } = {},
): Promise<string> {
  const hash = createHash("sha256");
  for (const selection of selections) {
    for await (const { path, kind, host, stat } of walk(tree, selection.path, options)) {
      const inside = [selection.path, path].filter((part) => part !== "").join("/");
      const content = kind === "file"
        ? tree.lazy.stamp(inside)
        : kind === "symlink"
        ? readlink(host)
        : stat.mode & 0o7777;
      hash.update(JSON.stringify([selection.name, path, kind, content]) + "\n");
    }
  }
  return hash.digest("hex");
}

/** Latest modification time of a file or link among the selections, in seconds; 0 for none. */
export async function latestTime(
  tree: Tree,
  selections: Selection[],
  options: { exclude?: Ignore; signal?: AbortSignal } = {},
): Promise<number> {
  let latest = 0;
  for (const selection of selections) {
    if (tree.known) {
      for (const { kind, mtime } of tree.known.walk(selection.path, options.exclude)) {
        if (kind !== "directory") latest = Math.max(latest, mtime);
      }
      continue;
    }
    for await (const { kind, stat } of walk(tree, selection.path, options)) {
      if (kind !== "directory") latest = Math.max(latest, stat.mtime);
    }
  }
  return latest;
}
