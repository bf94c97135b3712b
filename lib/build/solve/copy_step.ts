/** Carries out COPY, ADD and WORKDIR on a mounted root. */
import { SvcError } from "../../base/errors.ts";
import { TarParser } from "../../oci/tar_parser.ts";
import { limited, unpackedTooLarge } from "../../oci/unpack_limit.ts";
import { S_IFMT, S_IFREG, tryLstat } from "../../sys/files.ts";
import { resolveUser } from "../../runtime/user.ts";
import { isArchive, plainBytes } from "../context/archive_kind.ts";
import { makeFolders } from "../context/copy.ts";
import { Extractor } from "../context/extract.ts";
import { type Ignore, ignorePatterns } from "../parse/ignore.ts";
import { hasWildcard } from "../parse/path_pattern.ts";
import { locate } from "../../sys/rooted.ts";
import { select, type Selection, type Tree } from "../context/tree.ts";
import { contentKey } from "../context/tree_keys.ts";
import type {} from "../context/copy.ts";
import { copyOffLoop } from "../context/worker_client.ts";
import { type CopyPart, type CopyVertex, type WorkdirVertex } from "../plan/graph.ts";

/** One source of an instruction, and the selections that it names. */
export interface Picked {
  source: string;
  selections: Selection[];
}

function nothing(part: CopyPart, source: string, ignore: Ignore | undefined): SvcError {
  const shown = JSON.stringify(source);
  const where = part.fromName === undefined ? "in the build context" : `in ${part.fromName}`;
  const clean = source.replace(/^(\.?\/)+/, "").replace(/\/+$/, "");
  const excluded = ignore && clean !== "" && ignore.excludes(clean);
  return new SvcError(
    "build_failed",
    excluded ? `${shown} is left out by .dockerignore` : `${shown} is not ${where}`,
    {
      help: excluded
        ? "take it back with a line that begins with !, or copy something else"
        : "paths are relative to the root of the context or stage, and are case-sensitive",
    },
  );
}

/**
 * The selections of each source. Throws `build_failed` where a source names nothing; a pattern may match
 * nothing.
 */
export function pick(
  tree: Tree,
  { parents }: CopyVertex,
  part: CopyPart,
  ignore?: Ignore,
): Picked[] {
  return part.sources.map((source) => {
    const selections = select(tree, source, parents);
    if (selections.length === 0 && !hasWildcard(source)) throw nothing(part, source, ignore);
    return { source, selections };
  });
}

/** Content key of all that an instruction copies. */
export function pickedContent(
  tree: Tree,
  vertex: CopyVertex,
  picked: Picked[],
  signal?: AbortSignal,
): Promise<string> {
  return contentKey(tree, picked.flatMap(({ selections }) => selections), {
    exclude: excludeOf(vertex),
    signal,
  });
}

export function excludeOf(vertex: CopyVertex): Ignore | undefined {
  return vertex.exclude.length > 0 ? ignorePatterns(vertex.exclude) : undefined;
}

/**
 * The owner for `--chown`. Names are looked up in the destination's passwd; a number alone is also the group.
 */
export async function ownerOf(
  root: string,
  text: string | undefined,
): Promise<{ uid: number; gid: number } | undefined> {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text)) return { uid: Number(text), gid: Number(text) };
  const { uid, gid } = await resolveUser(root, text);
  return { uid, gid };
}

/** Unpacks an archive below the destination. */
async function unpackArchive(
  tree: Tree,
  path: string,
  { destination, link }: CopyVertex,
  { root, owner, maxUnpackedBytes, signal }: CopyTarget,
): Promise<void> {
  const tooLarge = (limit: number) => unpackedTooLarge(limit, path.split("/").pop());
  makeFolders(root, destination, owner, link);
  const extractor = new Extractor({
    root: locate(root, destination).host,
    owners: owner ?? "archive",
    strict: false,
  });
  try {
    const parser = new TarParser(extractor);
    for await (const chunk of limited(plainBytes(tree.root, path), maxUnpackedBytes, tooLarge)) {
      signal?.throwIfAborted();
      parser.push(chunk);
    }
    parser.finish();
    extractor.finish();
  } finally {
    extractor.abandon();
  }
}

/** Where a COPY or ADD writes, and how. */
export interface CopyTarget {
  root: string;
  owner?: { uid: number; gid: number };
  /** Most bytes of one archive, unpacked. */
  maxUnpackedBytes?: number;
  signal?: AbortSignal;
}

/** Carries out a part of COPY or ADD. */
export async function runCopyPart(
  vertex: CopyVertex,
  part: CopyPart,
  tree: Tree,
  target: CopyTarget,
): Promise<void> {
  const { root, owner, signal } = target;
  const { chmod, exclude, destination, parents, link } = vertex;
  for (const { selections } of pick(tree, vertex, part)) {
    const rest: Selection[] = [];
    for (const selection of selections) {
      const host = `${tree.root}/${selection.path}`;
      const unpack = part.unpack && !selection.directory && isFile(host);
      if (unpack && await isArchive(tree.root, selection.path)) {
        await unpackArchive(tree, selection.path, vertex, target);
      } else rest.push(selection);
    }
    const options = { root, destination, owner, chmod, exclude, parents, link, signal };
    await copyOffLoop(tree, rest, options);
  }
}

const isFile = (host: string) => ((tryLstat(host)?.mode ?? 0) & S_IFMT) === S_IFREG;

/** Writes heredocs as files, with the time of the step. */
export async function runInline(
  vertex: CopyVertex,
  folder: string,
  { root, owner, signal }: CopyTarget,
): Promise<void> {
  const { chmod, destination, link } = vertex;
  const selections: Selection[] = [];
  for (const [index, { name, data }] of vertex.inline.entries()) {
    const path = String(index);
    await Deno.writeTextFile(`${folder}/${path}`, data);
    await Deno.chmod(`${folder}/${path}`, 0o644);
    selections.push({ path, name, directory: false });
  }
  const inline: Tree = { root: folder, ownersKept: false };
  await copyOffLoop(inline, selections, { root, destination, owner, chmod, link, signal });
}

/** Makes the folder of WORKDIR, owned by the stage's USER as in BuildKit. */
export async function runWorkdir(vertex: WorkdirVertex, root: string): Promise<void> {
  const owner = vertex.user === "" ? undefined : await resolveUser(root, vertex.user);
  makeFolders(root, vertex.path, owner);
}
