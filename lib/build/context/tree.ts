/**
 * What COPY, ADD and bind mounts take from a file tree: the paths a pattern names, and a key of their
 * content (DESIGN.md section 9: content, not times).
 */
import { createHash } from "node:crypto";
import { posix } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { compareRaw } from "../../base/raw_string.ts";
import { readNames } from "../../sys/directory.ts";
import { close, read } from "../../sys/fd.ts";
import {
  type FileStat,
  readlink,
  S_IFDIR,
  S_IFLNK,
  S_IFMT,
  S_IFREG,
  tryLstat,
} from "../../sys/files.ts";
import { OpenFolder } from "../../sys/open_folder.ts";
import { openRegular } from "../../sys/rooted_file.ts";
import { listXattrs } from "../../sys/xattr.ts";
import { type Ignore, pathsAtOnce } from "../parse/ignore.ts";
import { compilePath, type PathPattern } from "../parse/path_pattern.ts";
import { locate } from "../../sys/rooted.ts";

export interface Tree {
  /** Folder on this host. */
  root: string;
  /** sha256 in hex of files by path, where known already. */
  digests?: ReadonlyMap<string, string>;
  /** Present where what the tree holds is known without a look at it. */
  known?: KnownTree;
  /** Keys of selections of what is known: kept by whoever knows when something changes, and forgets them. */
  keys?: Map<string, string>;
  /** Of files with several names the first one's path, by path, where the tree's own files do not tell it. */
  names?: ReadonlyMap<string, string>;
  /** Owners are part of the content: true for the trees of images, false for the context. */
  ownersKept: boolean;
  /**
   * Present where contents are elsewhere until they are needed: fetches those of the selections. Called
   * by {@linkcode contentKey}; without it their files are empty.
   */
  fill?(selections: Selection[], options: { exclude?: Ignore }): Promise<void>;
  /** Present where RUN may mount it without that its contents are fetched first. */
  lazy?: LazyTree;
}

/** An entry as {@linkcode walk} finds it on disk. */
export interface KnownEntry {
  /** Below where the walk began; "" is the beginning itself. */
  path: string;
  /** The same from the root of the tree. */
  inside: string;
  kind: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  /** Where a symlink leads. */
  link?: string;
}

export interface KnownTree {
  /** What {@linkcode walk} would find, in its order. */
  walk(path: string, exclude?: Ignore): Iterable<KnownEntry>;
}

/** Contents that are read when a process reads them. */
export interface LazyTree {
  /** Changes with the content of the file at `path`, and is nobody else's. */
  stamp(path: string): string;
  /**
   * A folder with the tree for other processes; this one must not look into it: it would wait for
   * itself. Undefined where this machine cannot have one.
   */
  mount(): Promise<string | undefined>;
}

export type EntryKind = "file" | "directory" | "symlink" | "other";

export interface TreeEntry {
  /** Below where the walk began; "" is the beginning itself. */
  path: string;
  host: string;
  kind: EntryKind;
  stat: FileStat;
}

/** One path that an instruction takes, and its name at the destination. */
export interface Selection {
  /** Path inside the tree, links resolved. */
  path: string;
  /** Last part of the name as written, or with `--parents` all that is kept of it. */
  name: string;
  directory: boolean;
  /** With `--parents`: the folders of `name`, outermost first, as paths inside the tree, links resolved. */
  folders?: string[];
}

function kindOf(stat: FileStat): EntryKind {
  switch (stat.mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    default:
      return "other";
  }
}

/** Entries looked at before other work gets its turn. */
const TURN = 1000;

/** The entry at `path` and all below it, folders before what is in them, names in byte order. */
export async function* walk(
  tree: Tree,
  path: string,
  options: { exclude?: Ignore; signal?: AbortSignal } = {},
): AsyncGenerator<TreeEntry> {
  let seen = 0;
  const turn = pathsAtOnce(TURN, options.exclude);
  /** `above`: the folder that it is in, where it is not where the walk began. */
  const stack: { path: string; host: string; name: string; above?: string }[] = [{
    path: "",
    host: path === "" ? tree.root : `${tree.root}/${path}`,
    name: "",
  }];
  using folder = new OpenFolder();
  for (let at = stack.pop(); at; at = stack.pop()) {
    const { above, name } = at;
    const stat = above === undefined ? tryLstat(at.host) : folder.at(above).tryLstat(name);
    if (!stat) continue;
    if (++seen % turn === 0) {
      options.signal?.throwIfAborted();
      await new Promise<void>((next) => setImmediate(next));
    }
    const kind = kindOf(stat);
    if (at.path !== "" && options.exclude?.excludes(at.path)) {
      if (kind !== "directory" || options.exclude.canSkipDir(at.path)) continue;
    }
    yield { path: at.path, host: at.host, kind, stat };
    if (kind !== "directory") continue;
    for (const name of readNames(at.host).sort((a, b) => compareRaw(b, a))) {
      stack.push({
        path: at.path === "" ? name : `${at.path}/${name}`,
        host: `${at.host}/${name}`,
        name,
        above: at.host,
      });
    }
  }
}

/** One segment of a pattern, or a whole one. */
function compile(pattern: string): PathPattern {
  const compiled = compilePath(pattern, false);
  if (compiled) return compiled;
  throw new SvcError(
    "dockerfile_invalid",
    `Cannot read pattern ${
      JSON.stringify(pattern)
    }: a bracket or an escape is not closed, or it is too long`,
  );
}

const child = (parent: string, name: string) =>
  [parent, name].filter((part) => part !== "").join("/");

/**
 * Paths inside the tree that `pattern` names, in byte order. With `deep`, `**` stands for any number of
 * folders; else it is no different from `*`. `base`: a path that the pattern begins below.
 */
export function match(tree: Tree, pattern: string, deep = false, base = ""): string[] {
  const clean = posix.normalize(`/${pattern}`).replace(/^\/+|\/+$/g, "");
  const { literal } = compile(clean);
  if (literal !== undefined) {
    const path = child(base, literal);
    return tryLstat(locate(tree.root, path).host) ? [path] : [];
  }
  let paths = [base];
  for (const segment of clean.split("/")) {
    const next = new Set<string>();
    const names = (path: string): string[] => {
      const found = locate(tree.root, path);
      const stat = tryLstat(found.host);
      return stat && kindOf(stat) === "directory" ? readNames(found.host) : [];
    };
    if (deep && segment === "**") {
      const visit = (path: string) => {
        next.add(path);
        for (const name of names(path)) {
          const stat = tryLstat(`${tree.root}/${child(path, name)}`);
          if (stat && kindOf(stat) === "directory") visit(child(path, name));
        }
      };
      for (const path of paths) visit(path);
    } else {
      const compiled = compile(segment);
      for (const path of paths) {
        if (compiled.literal === undefined) {
          for (const name of names(path)) if (compiled.matches(name)) next.add(child(path, name));
        } else if (tryLstat(locate(tree.root, child(path, compiled.literal)).host)) {
          next.add(child(path, compiled.literal));
        }
      }
    }
    paths = [...next];
  }
  return paths.sort(compareRaw);
}

/** What `source` selects; an empty list where nothing is there. */
export function select(tree: Tree, source: string, parents: boolean): Selection[] {
  if (!parents) return match(tree, source).map((path) => selectionOf(tree, path));
  // Of "a/./b/c" only "b/c" is kept; "./" at the beginning divides nothing.
  const pivot = source.indexOf("/./");
  const [above, below] = pivot < 0
    ? ["", source]
    : [source.slice(0, pivot), source.slice(pivot + 3)];
  return match(tree, above).flatMap((base) =>
    match(tree, below, true, base).map((path) => {
      const name = path.slice(base === "" ? 0 : base.length + 1);
      const folders = [...name.matchAll(/\//g)].map(({ index }) =>
        locate(tree.root, child(base, name.slice(0, index))).inside
      );
      return { ...selectionOf(tree, path), name, folders };
    })
  );
}

function selectionOf(tree: Tree, path: string): Selection {
  const found = locate(tree.root, path);
  const stat = tryLstat(found.host);
  if (!stat) {
    throw new SvcError(
      "build_failed",
      `${JSON.stringify(path)} is a symbolic link that leads to nothing in what is copied`,
    );
  }
  return {
    path: found.inside,
    name: posix.basename(path),
    directory: kindOf(stat) === "directory",
  };
}

/** Of the folders that `--parents` makes as they are in the tree. */
export function parentEntry(tree: Tree, path: string): TreeEntry | undefined {
  const host = `${tree.root}/${path}`;
  const stat = tryLstat(host);
  return stat && { path, host, kind: kindOf(stat), stat };
}

/** What of them is content. */
function parentFields(tree: Tree, { folders = [] }: Selection): unknown[] {
  return folders.map((path) => {
    const stat = parentEntry(tree, path)?.stat;
    return stat && [stat.mode & 0o7777, ...tree.ownersKept ? [stat.uid, stat.gid] : []];
  });
}

/** Bytes of files that are read at once, which takes less than handing them to a thread. */
const SMALL = 64 * 1024;
const small = new Uint8Array(SMALL);

/** sha256 of a file's bytes, in hex. `size`: what it probably has. */
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

/** Keys that are kept of one tree, at most. */
const MAX_KEYS = 256;

const nameOf = (selections: readonly Selection[]) =>
  JSON.stringify(selections.map(({ path, name }) => [path, name]));

/**
 * sha256 in hex over names, types, modes, sizes, contents and link targets; over owners where they are
 * kept. Times of the same selection differ in builds of equal content: they are no part of the key.
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

/** {@linkcode contentKey} without a look at files whose digests are known: the same key. */
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

/** {@linkcode contentKey} of a tree that is not to be fetched: stamps stand for contents. */
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

/** Extended attributes that travel with a copy. */
export function isCopied(name: string): boolean {
  return name.startsWith("user.") || name === "security.capability";
}
