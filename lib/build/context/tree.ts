/**
 * What COPY, ADD and bind mounts take from a file tree: the paths that a pattern names. Keys of their content
 * are in tree_keys.ts.
 */
import { posix } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { compareRaw } from "../../base/raw_string.ts";
import { readNames } from "../../sys/directory.ts";
import { type FileStat, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, tryLstat } from "../../sys/files.ts";
import { OpenFolder } from "../../sys/open_folder.ts";
import { type Ignore, pathsAtOnce } from "../parse/ignore.ts";
import { compilePath, type PathPattern } from "../parse/path_pattern.ts";
import { locate } from "../../sys/rooted.ts";

export interface Tree {
  /** Folder on this host. */
  root: string;
  /** sha256 in hex of files by path, where known already. */
  digests?: ReadonlyMap<string, string>;
  /** Present where the entries are known without a look at the disk. */
  known?: KnownTree;
  /** Content keys of selections. The owner of the tree keeps them, and clears them when an entry changes. */
  keys?: Map<string, string>;
  /**
   * For each path of a hard-linked file, the first path of that file; for trees whose own files do not have
   * the links.
   */
  names?: ReadonlyMap<string, string>;
  /** Owners are part of the content: true for the trees of images, false for the context. */
  ownersKept: boolean;
  /**
   * Present where contents are fetched on demand: fetches those of the selections. {@linkcode contentKey}
   * calls it; before that the files are empty.
   */
  fill?(selections: Selection[], options: { exclude?: Ignore }): Promise<void>;
  /** Present where RUN may mount the tree before its contents are fetched. */
  lazy?: LazyTree;
}

/** An entry as {@linkcode walk} finds it on disk. */
export interface KnownEntry {
  /** Path below the start of the walk; "" is the start itself. */
  path: string;
  /** Path from the root of the tree. */
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
  /** The entries that {@linkcode walk} would find, in the same order. */
  walk(path: string, exclude?: Ignore): Iterable<KnownEntry>;
}

/** A tree whose contents are fetched when a process reads them. */
export interface LazyTree {
  /** Changes with the content of the file at `path`; no other file has the same stamp. */
  stamp(path: string): string;
  /**
   * Mounts the tree for other processes and gives the folder. This process must not look into the folder: it
   * would wait for its own answer. Undefined where this machine cannot mount it.
   */
  mount(): Promise<string | undefined>;
}

export type EntryKind = "file" | "directory" | "symlink" | "other";

export interface TreeEntry {
  /** Path below the start of the walk; "" is the start itself. */
  path: string;
  host: string;
  kind: EntryKind;
  stat: FileStat;
}

/** One path that an instruction takes, and its name at the destination. */
export interface Selection {
  /** Path inside the tree, links resolved. */
  path: string;
  /** Last component of the name as written; with `--parents`, all of the name that is kept. */
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
export const TURN = 1000;

/** The entry at `path` and everything below it; a folder comes before its contents, names are in byte order. */
export async function* walk(
  tree: Tree,
  path: string,
  options: { exclude?: Ignore; signal?: AbortSignal } = {},
): AsyncGenerator<TreeEntry> {
  let seen = 0;
  const turn = pathsAtOnce(TURN, options.exclude);
  /** `above`: path of the parent folder, where the entry is not the start of the walk. */
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

/** Compiles one segment of a pattern, or a whole pattern. */
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
 * Paths inside the tree that match `pattern`, in byte order. With `deep`, `**` matches any number of folders;
 * otherwise it means `*`. `base`: folder below which the pattern begins.
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

/** What `source` selects; empty where nothing matches. */
export function select(tree: Tree, source: string, parents: boolean): Selection[] {
  if (!parents) return match(tree, source).map((path) => selectionOf(tree, path));
  // With --parents, "a/./b/c" keeps only "b/c"; a leading "./" does not count.
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

/** The entry of a folder that `--parents` keeps; undefined for a path that is not there. */
export function parentEntry(tree: Tree, path: string): TreeEntry | undefined {
  const host = `${tree.root}/${path}`;
  const stat = tryLstat(host);
  return stat && { path, host, kind: kindOf(stat), stat };
}

/** Extended attributes that travel with a copy. */
export function isCopied(name: string): boolean {
  return name.startsWith("user.") || name === "security.capability";
}
