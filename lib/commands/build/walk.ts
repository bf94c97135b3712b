/** The files of a build context in a fixed order, .dockerignore applied. */
import { join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import { permissionsOf } from "../../base/fs.ts";
import { compareRaw } from "../../base/raw_string.ts";
import type { Ignore } from "../../build/parse/ignore.ts";
import type { TarFields } from "../../oci/tar_write.ts";

export interface ContextEntry {
  fields: TarFields;
  /** Path from which a file's content is read. */
  source: string;
}

export interface WalkOptions {
  ignore: Ignore;
  /** Paths that are sent whatever the rules exclude: the server reads the Dockerfile and its .dockerignore. */
  always: ReadonlySet<string>;
  /** Called once for each path that is left out although no rule excludes it. */
  onSkip: (path: string, why: string) => void | Promise<void>;
  signal: AbortSignal;
}

async function sortedNames(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(directory)) names.push(name);
  return names.sort(compareRaw);
}

async function lstat(path: string, inside: string): Promise<Deno.FileInfo> {
  try {
    return await Deno.lstat(path);
  } catch (cause) {
    const unreadable = inside.includes("\uFFFD");
    throw new SvcError(
      "context_invalid",
      `Cannot read ${inside} of the build context: ${
        unreadable ? "its name is not UTF-8" : (cause as Error).message
      }`,
      { cause, help: "rename it, or leave it out with .dockerignore" },
    );
  }
}

/** Owners are 0, as with docker's client: they have no meaning on the server. */
function fields(path: string, info: Deno.FileInfo, type: TarFields["type"]): TarFields {
  const ms = info.mtime?.getTime() ?? 0;
  return {
    path,
    type,
    mode: permissionsOf(info),
    mtime: Math.floor(ms / 1000),
    size: type === "file" ? info.size : 0,
  };
}

function typeOf(info: Deno.FileInfo): TarFields["type"] | "socket" | "device" {
  if (info.isFile) return "file";
  if (info.isDirectory) return "directory";
  if (info.isSymlink) return "symlink";
  if (info.isSocket) return "socket";
  return info.isFifo ? "fifo" : "device";
}

/** On Windows a link's target has backslashes as separators; elsewhere a backslash is part of a name. */
function linkTarget(target: string): string {
  return Deno.build.os === "windows" ? target.replaceAll("\\", "/") : target;
}

/**
 * Yields a folder before its entries; an excluded folder comes only if something below it is included again.
 * Throws `context_invalid` for a path that cannot be read.
 */
export async function* walkContext(
  root: string,
  options: WalkOptions,
): AsyncGenerator<ContextEntry> {
  const { ignore, always, onSkip, signal } = options;
  const keepsBelow = (folder: string) =>
    [...always].some((path) => path.startsWith(`${folder}/`)) || !ignore.canSkipDir(folder);
  /** `below`: excluded folders on the way here that were not yielded yet. */
  const visit = async function* (
    inside: string,
    pending: ContextEntry[],
  ): AsyncGenerator<ContextEntry> {
    for (const name of await sortedNames(join(root, inside))) {
      signal.throwIfAborted();
      const path = inside === "" ? name : `${inside}/${name}`;
      const source = join(root, path);
      const wanted = always.has(path) || !ignore.excludes(path);
      const info = await lstat(source, path);
      const type = typeOf(info);
      if (type === "directory") {
        if (!wanted && !keepsBelow(path)) continue;
        const entry = { fields: fields(path, info, type), source };
        if (wanted) yield* pending.splice(0);
        if (wanted) yield entry;
        const below = wanted ? pending : [...pending, entry];
        for await (const found of visit(path, below)) {
          // The entry that came out includes the folders of `below` before it.
          if (!wanted) pending.length = 0;
          yield found;
        }
      } else if (wanted && (type === "socket" || type === "device" || type === "fifo")) {
        await onSkip(path, type === "fifo" ? "a named pipe" : `a ${type}`);
      } else if (wanted) {
        yield* pending.splice(0);
        const entry = fields(path, info, type as TarFields["type"]);
        if (type === "symlink") entry.linkpath = linkTarget(await Deno.readLink(source));
        yield { fields: entry, source };
      }
    }
  };
  yield* visit("", []);
}
