/**
 * Random access to tar archives: entries are found by hopping from header to header, contents are read in
 * place. An archive where that is not possible (compressed, or a pipe) is unpacked into a temporary file.
 */
import { posix } from "node:path";
import { SvcError, systemCode } from "../base/errors.ts";
import { decompressChunks, detectCompression, MAGIC_LENGTH } from "./compression.ts";
import type { ReadOptions } from "./image.ts";
import { type LayoutFiles, readSlice } from "./layout_files.ts";
import { archiveError, BLOCK, padding, type TarHeader } from "./tar.ts";
import { TarParser } from "./tar_parser.ts";

interface Member {
  offset: number;
  size: number;
}

/** Files of an archive, and where in its file they are. */
export interface ArchiveFiles extends LayoutFiles {
  /** The content's place in the archive, and the path of the entry that has it: links are followed. */
  place(name: string): { path: string; offset: number; size: number } | undefined;
}

/** Most entries of an image archive, so that a hostile one cannot exhaust memory. */
const MAX_ENTRIES = 100_000;
/** Most links that may follow one another. */
const MAX_HOPS = 16;

/** A path of an archive without "./" and "..". */
export const cleanPath = (path: string): string => posix.normalize(`/${path}`).slice(1);

class BlockReader {
  readonly #file: Deno.FsFile;
  #buffer = new Uint8Array(0);
  #start = 0;

  constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /** The block at `offset`; undefined at the end of the file. */
  async block(offset: number): Promise<Uint8Array | undefined> {
    const at = offset - this.#start;
    if (at >= 0 && at + BLOCK <= this.#buffer.length) {
      return this.#buffer.subarray(at, at + BLOCK);
    }
    await this.#file.seek(offset, Deno.SeekMode.Start);
    // A new buffer: the parser may still use the one before.
    const buffer = new Uint8Array(16 * BLOCK);
    let filled = 0;
    while (filled < buffer.length) {
      const count = await this.#file.read(buffer.subarray(filled));
      if (count === null) break;
      filled += count;
    }
    [this.#buffer, this.#start] = [buffer.subarray(0, filled), offset];
    if (filled === 0) return undefined;
    if (filled < BLOCK) throw archiveError("it ends in the middle of an entry");
    return this.#buffer.subarray(0, BLOCK);
  }
}

/** Finds the position of each file in the archive, and the targets of links. */
async function readEntries(path: string, signal?: AbortSignal) {
  using file = await Deno.open(path);
  const length = (await file.stat()).size;
  const reader = new BlockReader(file);
  const places = new Map<string, Member>();
  const links = new Map<string, string>();
  let offset = 0;
  for (let count = 0; count <= MAX_ENTRIES; count++) {
    signal?.throwIfAborted();
    let header: TarHeader | undefined;
    const nothing = () => {};
    const parser = new TarParser({
      entry: (found) => header = found,
      data: nothing,
      hole: nothing,
      end: nothing,
    });
    let zeros = 0;
    while (!header) {
      const block = await reader.block(offset);
      if (!block) {
        parser.finish();
        return { places, links };
      }
      zeros = block.every((byte) => byte === 0) ? zeros + 1 : 0;
      if (zeros === 2) return { places, links };
      parser.push(block);
      offset += BLOCK;
    }
    const name = cleanPath(header.path);
    if (header.type === "file") {
      if (offset + header.size > length) throw archiveError("it ends in the middle of an entry");
      places.set(name, { offset, size: header.size });
      links.delete(name);
      offset += header.size + padding(header.size);
    } else if (header.type === "symlink") {
      links.set(name, cleanPath(posix.join(posix.dirname(name), header.linkpath)));
      places.delete(name);
    } else if (header.type === "hardlink") links.set(name, cleanPath(header.linkpath));
  }
  throw archiveError(`it has more than ${MAX_ENTRIES} entries`);
}

/** The archive as a file for random access; a temporary file where needed. */
async function seekable(
  path: string,
  options: ReadOptions,
): Promise<{ path: string; remove?: () => Promise<void> }> {
  const info = await Deno.stat(path);
  if (info.isDirectory) {
    throw new SvcError("archive_invalid", `Cannot read ${path}: it is a folder`);
  }
  const head = new Uint8Array(MAGIC_LENGTH);
  if (info.isFile) {
    using file = await Deno.open(path);
    await file.read(head);
    if (detectCompression(head) === "none") return { path };
  }
  const temporary = await Deno.makeTempFile({ prefix: "svc-archive-" });
  const remove = () => Deno.remove(temporary).catch(() => {/* gone already */});
  try {
    const source = await Deno.open(path);
    using target = await Deno.open(temporary, { write: true });
    for await (const chunk of decompressChunks(source.readable)) {
      options.signal?.throwIfAborted();
      for (let at = 0; at < chunk.length;) at += await target.write(chunk.subarray(at));
    }
    return { path: temporary, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * Opens an archive, compressed or not. Throws `not_found` where it is missing, `archive_invalid` where it is
 * damaged or no tar archive.
 */
export async function openArchive(path: string, options: ReadOptions = {}): Promise<ArchiveFiles> {
  let found: Awaited<ReturnType<typeof seekable>> | undefined;
  try {
    found = await seekable(path, options);
    const { places, links } = await readEntries(found.path, options.signal);
    const { path: file, remove } = found;
    const locate: ArchiveFiles["place"] = (name) => {
      let at = cleanPath(name);
      for (let hops = 0; hops < MAX_HOPS; hops++) {
        const link = links.get(at);
        const found = places.get(at);
        if (link === undefined) return found && { path: at, ...found };
        at = link;
      }
      return undefined;
    };
    return {
      label: path,
      place: locate,
      size: (name) => Promise.resolve(locate(name)?.size),
      open(name, start, end, signal) {
        const { offset } = locate(name)!;
        return ReadableStream.from(readSlice(file, offset + start, end - start, signal));
      },
      [Symbol.asyncDispose]: async () => await remove?.(),
    };
  } catch (error) {
    await found?.remove?.();
    const code = systemCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") {
      throw new SvcError("not_found", `Cannot read ${path}: there is no such file`, {
        cause: error,
        help: "check the path",
      });
    }
    if (error instanceof SvcError && error.code === "archive_invalid") {
      const why = error.message.slice(error.message.indexOf(": ") + 2);
      throw new SvcError("archive_invalid", `Cannot read archive ${path}: ${why}`, {
        cause: error,
      });
    }
    throw error;
  }
}
