/** Copies between this machine and an instance, as `docker cp` does. */
import { SvcError, systemCode } from "../../base/errors.ts";
import { basename, dirname, join, native, posix, resolve } from "../../base/path.ts";
import type { FileStat } from "../../api/workload.ts";
import type { Client } from "../../client/client.ts";
import { readArchive, type RemotePath, statFile, writeArchive } from "../../client/files.ts";
import { extractArchive, type Extracted } from "../build/extract.ts";
import { writing } from "../build/outputs.ts";
import { inputError } from "../input.ts";
import { packPath } from "./pack.ts";
import { landing, namesContents, type Source, type Target } from "./place.ts";

export interface CopyOptions {
  /** Keeps owners; otherwise files belong to root in an instance, and to the caller here. */
  archive: boolean;
  /** Follows a link that is the source. */
  follow: boolean;
  onSkip: (path: string, why: string) => void | Promise<void>;
  signal: AbortSignal;
}

const MAX_LINKS = 40;
const S_IFMT = 0o170000;
const S_IFDIR = 0o040000;
const isFolder = ({ mode }: FileStat) => (mode & S_IFMT) === S_IFDIR;

interface Found {
  at: RemotePath;
  /** Undefined: there is no such file, deployment or instance, as the error says. */
  stat?: FileStat;
  error?: SvcError;
}

async function find(client: Client, at: RemotePath): Promise<Found> {
  try {
    return { at, stat: await statFile(client, at) };
  } catch (error) {
    if (error instanceof SvcError && error.code === "not_found") return { at, error };
    throw error;
  }
}

/** The file that a path leads to, links followed. */
async function follow(client: Client, at: RemotePath): Promise<Found> {
  for (let links = 0; links <= MAX_LINKS; links++) {
    const found = await find(client, at);
    const target = found.stat?.linkTarget;
    if (target === undefined) return found;
    const folder = at.path.replace(/\/*$/, "").replace(/[^/]*$/, "");
    // The parts before may be links: the server resolves them, and what ".." leads to.
    at = { ...at, path: target.startsWith("/") ? target : folder + target };
  }
  throw new SvcError("argument_invalid", `Cannot copy ${at.path}: too many symbolic links`);
}

/** Without a "/" or "/." at its end, which only say that it is a folder. */
const trimmed = (path: string) => posix.normalize(path).replace(/(?<=[^/])\/$/, "");

async function remoteSource(client: Client, from: RemotePath, wantsTarget: boolean) {
  const contents = namesContents(from.path);
  const at = { ...from, path: trimmed(from.path) };
  const followed = wantsTarget || /\/\.?$/.test(from.path);
  const found = await (followed ? follow : find)(client, at);
  if (!found.stat) throw found.error;
  const source: Source = {
    isFolder: isFolder(found.stat),
    name: posix.basename(at.path),
    contents,
  };
  if (/\/\.?$/.test(from.path) && !source.isFolder) {
    throw new SvcError("argument_invalid", `Cannot copy ${from.path}: it is no folder`);
  }
  return { at: found.at, source };
}

/** What a path of this machine leads to. A link to nothing is written to where it leads. */
async function localTarget(path: string): Promise<Target> {
  let real = path;
  for (let links = 0; links <= MAX_LINKS; links++) {
    try {
      const info = await Deno.stat(real);
      if (info.isDirectory) return { path, is: "folder" };
      if (info.isFile) return { path: await Deno.realPath(real), is: "file" };
      throw new SvcError("argument_invalid", `Cannot write ${path}: it is no regular file`);
    } catch (error) {
      if (systemCode(error) === "ELOOP") break;
      if (systemCode(error) !== "ENOENT") throw error;
    }
    const link = await Deno.readLink(real).catch(() => undefined);
    if (link === undefined) return { path: real, is: "none" };
    real = resolve(dirname(real), link);
  }
  throw new SvcError("argument_invalid", `Cannot write ${path}: too many symbolic links`);
}

/**
 * Where a path of the archive belongs: the root's name is replaced by `name`. The root is the first entry: what
 * lies beside it was not asked for, and is refused.
 */
export function placing(name: string | undefined): (parts: string[]) => string[] {
  let root: string[] | undefined;
  return (parts) => {
    root ??= parts.slice(0, 1);
    if (root.length > 0 && parts[0] !== root[0]) {
      throw new SvcError(
        "archive_invalid",
        `Cannot unpack ${JSON.stringify(parts.join("/"))}: it is no part of what was asked for`,
      );
    }
    return [...name === undefined ? [] : [name], ...parts.slice(root.length)];
  };
}

/** Copies out of an instance. Resolves to what was copied. */
export async function copyOut(
  client: Client,
  from: RemotePath,
  to: string,
  options: CopyOptions,
): Promise<Extracted> {
  const { at, source } = await remoteSource(client, from, options.follow);
  return await writing(to, async () => {
    const target = await localTarget(to);
    const { folder, name } = landing(source, target, native);
    if (!(await Deno.stat(folder)).isDirectory) {
      throw new SvcError("argument_invalid", `Cannot write ${to}: ${folder} is no folder`);
    }
    return await extractArchive(await readArchive(client, at), folder, {
      signal: options.signal,
      owners: options.archive,
      place: placing(name),
    });
  });
}

async function localSource(from: string, wantsTarget: boolean) {
  const named = /[\\/]\.?$/.test(from) || from === "." || from === "..";
  const follow = wantsTarget || named;
  const info = await (follow ? Deno.stat : Deno.lstat)(from).catch((cause) => {
    throw inputError(from, "file", cause);
  });
  if (/[\\/]\.?$/.test(from) && !info.isDirectory) {
    throw new SvcError("argument_invalid", `Cannot copy ${from}: it is no folder`);
  }
  const source: Source = {
    isFolder: info.isDirectory,
    name: basename(resolve(from)),
    contents: namesContents(from),
  };
  return { source, follow };
}

async function remoteTarget(client: Client, to: RemotePath): Promise<Target & Found> {
  const found = await follow(client, { ...to, path: trimmed(to.path) });
  const { at, stat } = found;
  // The end of the path as it was written tells whether a folder is meant.
  const path = at.path + (/\/\.?$/.test(to.path) && at.path !== "/" ? "/" : "");
  return { ...found, path, is: !stat ? "none" : isFolder(stat) ? "folder" : "file" };
}

/** Copies into an instance. */
export async function copyIn(
  client: Client,
  from: string,
  to: RemotePath,
  options: CopyOptions,
): Promise<void> {
  const { source, follow } = await localSource(from, options.follow);
  const target = await remoteTarget(client, to);
  const { folder, name } = landing(source, target);
  const { archive: owners, signal, onSkip } = options;
  const tar = packPath(join(from), { name, follow, owners, signal, onSkip });
  await writeArchive(client, { ...to, path: folder }, tar);
}

/** Unpacks an archive into a folder of an instance; gzip and zstd are understood. */
export async function unpackInto(
  client: Client,
  to: RemotePath,
  tar: ReadableStream<Uint8Array>,
): Promise<void> {
  const target = await remoteTarget(client, to);
  if (target.is === "none") throw target.error;
  if (target.is === "file") {
    throw new SvcError(
      "argument_invalid",
      `Cannot unpack into ${to.name}:${to.path}: it is no folder`,
    );
  }
  const { decompress } = await import("../../oci/compression.ts");
  await writeArchive(client, target.at, decompress(tar));
}

/** The archive of a path in an instance. */
export async function archiveOf(
  client: Client,
  from: RemotePath,
  { follow }: Pick<CopyOptions, "follow">,
): Promise<ReadableStream<Uint8Array>> {
  return await readArchive(client, (await remoteSource(client, from, follow)).at);
}
