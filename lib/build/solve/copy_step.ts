/** COPY, ADD and WORKDIR on a mounted root. */
import { SvcError } from "../../base/errors.ts";
import { decompress, detectCompression } from "../../oci/compression.ts";
import { TarParser } from "../../oci/tar_parser.ts";
import { resolveUser } from "../../runtime/user.ts";
import { makeFolders } from "../context/copy.ts";
import { Extractor } from "../context/extract.ts";
import { type Ignore, ignorePatterns } from "../parse/ignore.ts";
import { hasWildcard } from "../parse/path_pattern.ts";
import { locate } from "../context/rooted.ts";
import { contentKey, latestTime, select, type Selection, type Tree } from "../context/tree.ts";
import { copyOffLoop } from "../context/worker_client.ts";
import { type CopyVertex, type WorkdirVertex } from "../plan/graph.ts";

/** One source of an instruction and what it names. */
export interface Picked {
  source: string;
  selections: Selection[];
}

function nothing(vertex: CopyVertex, source: string, ignore: Ignore | undefined): SvcError {
  const shown = JSON.stringify(source);
  const where = vertex.fromName === undefined ? "in the build context" : `in ${vertex.fromName}`;
  const clean = source.replace(/^(\.?\/)+/, "").replace(/\/+$/, "");
  const excluded = ignore && !hasWildcard(clean) && clean !== "" && ignore.excludes(clean);
  return new SvcError(
    "build_failed",
    excluded
      ? `${shown} is left out by .dockerignore`
      : `${shown} ${hasWildcard(clean) ? "matches nothing" : "is not"} ${where}`,
    {
      help: excluded
        ? "take it back with a line that begins with !, or copy something else"
        : "paths are relative to the root of the context or stage, and are case-sensitive",
    },
  );
}

/** What each source names. Throws `build_failed` where it names nothing. */
export function pick(tree: Tree, vertex: CopyVertex, ignore?: Ignore): Picked[] {
  return vertex.sources.map((source) => {
    const selections = select(tree, source, vertex.parents);
    if (selections.length === 0) throw nothing(vertex, source, ignore);
    return { source, selections };
  });
}

/** Key of everything an instruction copies. */
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

function excludeOf(vertex: CopyVertex): Ignore | undefined {
  return vertex.exclude.length > 0 ? ignorePatterns(vertex.exclude) : undefined;
}

/** `--chown`: names by the destination's own passwd; a number alone is its group too. */
export async function ownerOf(
  root: string,
  text: string | undefined,
): Promise<{ uid: number; gid: number } | undefined> {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text)) return { uid: Number(text), gid: Number(text) };
  const { uid, gid } = await resolveUser(root, text);
  return { uid, gid };
}

const HEAD = 512;

async function readHead(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const head = new Uint8Array(HEAD);
  let have = 0;
  for await (const chunk of stream) {
    const take = chunk.subarray(0, HEAD - have);
    head.set(take, have);
    have += take.length;
    if (have === HEAD) break;
  }
  return head.subarray(0, have);
}

const startsWith = (bytes: Uint8Array, ...magic: number[]) =>
  magic.every((byte, index) => bytes[index] === byte);

/** True for a tar archive, plain or compressed. Throws `unsupported` for compressions not known here. */
async function isArchive(host: string): Promise<boolean> {
  const head = await readHead((await Deno.open(host)).readable);
  if (startsWith(head, 0x42, 0x5a, 0x68) || startsWith(head, 0xfd, 0x37, 0x7a, 0x58, 0x5a)) {
    throw new SvcError(
      "unsupported",
      `${host.split("/").pop()}: ADD of a bzip2 or xz archive is not in this build yet`,
      { help: "compress it with gzip or zstd, or unpack it with RUN" },
    );
  }
  let plain = head;
  if (detectCompression(head) !== "none") {
    try {
      plain = await readHead(decompress((await Deno.open(host)).readable));
    } catch (error) {
      // Damaged, so it is no archive to unpack: it is copied as the file it is.
      if (error instanceof SvcError && error.code === "archive_invalid") return false;
      throw error;
    }
  }
  return new TextDecoder().decode(plain.subarray(257, 262)) === "ustar";
}

/** Unpacks an archive of the context below `destination`. The latest time of its entries, in seconds. */
async function unpackArchive(
  host: string,
  root: string,
  destination: string,
  signal?: AbortSignal,
): Promise<number> {
  makeFolders(root, destination);
  const extractor = new Extractor({
    root,
    below: locate(root, destination).inside,
    owners: "archive",
    strict: false,
  });
  try {
    const parser = new TarParser(extractor);
    for await (const chunk of decompress((await Deno.open(host)).readable)) {
      signal?.throwIfAborted();
      parser.push(chunk);
    }
    parser.finish();
    extractor.finish();
  } finally {
    extractor.abandon();
  }
  return extractor.latest;
}

/** Carries out COPY or ADD; gives the latest modification time of what was copied, in seconds. */
export async function runCopy(
  vertex: CopyVertex,
  root: string,
  tree: Tree,
  picked: Picked[],
  inlineFolder: string,
  signal?: AbortSignal,
): Promise<number> {
  const owner = await ownerOf(root, vertex.chown);
  const { chmod, exclude } = vertex;
  const several = vertex.inline.length + picked.reduce((n, one) => n + one.selections.length, 0) >
    1;
  const options = { root, destination: vertex.destination, several, owner, chmod, exclude, signal };
  let latest = await latestTime(tree, picked.flatMap(({ selections }) => selections), {
    exclude: excludeOf(vertex),
    signal,
  });
  for (const { selections } of picked) {
    const rest: Selection[] = [];
    for (const selection of selections) {
      const host = `${tree.root}/${selection.path}`;
      if (vertex.unpack && !selection.directory && await isArchive(host)) {
        const found = await unpackArchive(host, root, vertex.destination, signal);
        latest = Math.max(latest, found);
      } else rest.push(selection);
    }
    await copyOffLoop(tree, rest, { ...options, parents: vertex.parents });
  }
  if (vertex.inline.length > 0) {
    // Heredocs have no time of their own: the step's reference becomes theirs.
    const selections: Selection[] = [];
    for (const [index, { name, data }] of vertex.inline.entries()) {
      const path = String(index);
      await Deno.writeTextFile(`${inlineFolder}/${path}`, data, { mode: 0o644 });
      selections.push({ path, name, directory: false });
    }
    const inline: Tree = { root: inlineFolder, ownersKept: false };
    await copyOffLoop(inline, selections, options);
  }
  return latest;
}

/** Makes the folder of WORKDIR; it belongs to the stage's USER, as BuildKit has it. */
export async function runWorkdir(vertex: WorkdirVertex, root: string): Promise<void> {
  const owner = vertex.user === "" ? undefined : await resolveUser(root, vertex.user);
  makeFolders(root, vertex.path, owner);
}
