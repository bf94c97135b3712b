/** A file or folder of this machine as a tar archive: modes, links and holes are kept. */
import { coalesce } from "../../base/coalesce.ts";
import { SvcError } from "../../base/errors.ts";
import { permissionsOf } from "../../base/fs.ts";
import { join } from "../../base/path.ts";
import { dataOf, exactTime } from "../../client/files.ts";
import { type TarFields, type TarSegment, TarWriter } from "../../oci/tar_write.ts";
import { inputError } from "../input.ts";

export interface PackOptions {
  /** True: a link at `path` is followed. */
  follow?: boolean;
  /** False: everything belongs to root. */
  owners?: boolean;
  /** Called for what no archive can hold. */
  onSkip: (path: string, why: string) => void | Promise<void>;
  /** False: the path, and what is below it, is left out. */
  wanted?: (source: string, info: Deno.FileInfo) => boolean;
  signal: AbortSignal;
}

interface Entry {
  fields: TarFields;
  source: string;
  segments?: TarSegment[];
}

const CHUNK = 256 * 1024;

function typeOf(info: Deno.FileInfo): TarFields["type"] | "socket" | "device" {
  if (info.isFile) return "file";
  if (info.isDirectory) return "directory";
  if (info.isSymlink) return "symlink";
  if (info.isFifo) return "fifo";
  return info.isSocket ? "socket" : "device";
}

function times(info: Deno.FileInfo, source: string): Pick<TarFields, "mtime" | "mtimeNs"> {
  const exact = exactTime(source);
  if (exact) return { mtime: exact.mtime, mtimeNs: exact.mtimeNs };
  return { mtime: Math.floor((info.mtime?.getTime() ?? 0) / 1000) };
}

/** On Windows a link's target has backslashes as separators; elsewhere a backslash is part of a name. */
const linkTarget = (target: string) =>
  Deno.build.os === "windows" ? target.replaceAll("\\", "/") : target;

class Packer {
  readonly #options: PackOptions;
  /** First path of each file with several names. */
  readonly #several = new Map<string, string>();

  constructor(options: PackOptions) {
    this.#options = options;
  }

  /** `shown` false: what the folder holds, without the folder itself. */
  async *visit(
    source: string,
    path: string,
    { root = false, shown = true } = {},
  ): AsyncGenerator<Entry> {
    const { signal, onSkip, owners } = this.#options;
    signal.throwIfAborted();
    const info = await Deno.lstat(source).catch((cause) => {
      if (source.includes("\uFFFD")) cause = new Error("its name is not UTF-8", { cause });
      throw inputError(source, "file", cause);
    });
    if (this.#options.wanted?.(source, info) === false) return;
    const type = typeOf(info);
    if (type === "socket" || type === "device") {
      if (root) throw inputError(source, "file", new Error(`it is a ${type}`));
      return await onSkip(source, `a ${type}`);
    }
    const fields: TarFields = {
      ...{ path, type, mode: permissionsOf(info), ...times(info, source) },
      ...owners && { uid: info.uid ?? 0, gid: info.gid ?? 0 },
      ...type === "file" && { size: info.size },
    };
    if (type === "symlink") fields.linkpath = linkTarget(await Deno.readLink(source));
    if (type === "file") yield this.#file(fields, source, info);
    else if (shown) yield { fields, source };
    if (type !== "directory") return;
    const below = shown ? `${path}/` : "";
    for (const entry of await names(source)) {
      yield* this.visit(join(source, entry), below + entry);
    }
  }

  #file(fields: TarFields, source: string, info: Deno.FileInfo): Entry {
    const inode = (info.nlink ?? 1) > 1 && info.ino ? `${info.dev}:${info.ino}` : undefined;
    const first = inode && this.#several.get(inode);
    if (first !== undefined) {
      return { fields: { ...fields, type: "hardlink", linkpath: first, size: 0 }, source };
    }
    if (inode) this.#several.set(inode, fields.path);
    return { fields, source, segments: dataOf(source, info) };
  }
}

async function names(folder: string): Promise<string[]> {
  const found: string[] = [];
  try {
    for await (const { name } of Deno.readDir(folder)) found.push(name);
  } catch (cause) {
    throw inputError(folder, "folder", cause);
  }
  return found.sort();
}

/** The bytes of each segment: a file that has grown is cut, one that has shrunk is an error. */
async function* content(source: string, segments: readonly TarSegment[]) {
  using file = await Deno.open(source).catch((cause) => {
    throw inputError(source, "file", cause);
  });
  for (const { offset, length } of segments) {
    await file.seek(offset, Deno.SeekMode.Start);
    for (let left = length; left > 0;) {
      const buffer = new Uint8Array(Math.min(left, CHUNK));
      const read = await file.read(buffer);
      if (read === null) {
        throw new SvcError(
          "conflict",
          `Cannot copy ${source}: it became shorter while it was read`,
          { help: "copy it again when nothing writes to it" },
        );
      }
      left -= read;
      yield buffer.subarray(0, read);
    }
  }
}

async function* archive(
  roots: readonly PackedRoot[],
  options: PackOptions,
): AsyncGenerator<Uint8Array> {
  const writer = new TarWriter();
  const packer = new Packer(options);
  for (const { path, name } of roots) {
    const root = options.follow ? await Deno.realPath(path) : path;
    const entries = packer.visit(
      root,
      name ?? ".",
      { root: true, shown: name !== undefined },
    );
    for await (const { fields, source, segments } of entries) {
      yield writer.header(fields, segments);
      if (fields.type !== "file") continue;
      const whole = [{ offset: 0, length: fields.size ?? 0 }];
      for await (const chunk of content(source, segments ?? whole)) {
        const after = writer.data(chunk);
        yield chunk;
        yield after;
      }
    }
  }
  yield writer.end();
}

/** A file or folder, and its name in an archive; absent: only what the folder holds. */
export interface PackedRoot {
  path: string;
  name?: string;
}

/** Nothing is read before the archive is. Throws `argument_invalid` for what cannot be read. */
export function packPath(
  path: string,
  { name, ...options }: PackOptions & Pick<PackedRoot, "name">,
): ReadableStream<Uint8Array> {
  return packPaths([{ path, ...(name !== undefined && { name }) }], options);
}

/** Several files and folders in one archive. */
export function packPaths(
  roots: readonly PackedRoot[],
  options: PackOptions,
): ReadableStream<Uint8Array> {
  return ReadableStream.from(coalesce(archive(roots, options)));
}
