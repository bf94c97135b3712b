/** Files of an image layout or archive by name: from a folder, or from a tar archive (archive.ts). */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";

export interface LayoutFiles extends AsyncDisposable {
  /** As a person named it, for messages. */
  readonly label: string;
  /** Bytes of the file at `path` ("blobs/sha256/…"); undefined where there is none. */
  size(path: string): Promise<number | undefined>;
  /** The bytes `start` to `end` (exclusive) of a file that is there. */
  open(path: string, start: number, end: number, signal?: AbortSignal): ReadableStream<Uint8Array>;
}

const CHUNK = 256 * 1024;
/** Largest JSON document, in bytes; it is read whole. */
const MAX_DOCUMENT = 32 * 1024 * 1024;

/** `length` bytes of `file` from `start`; throws `archive_invalid` where the file ends before. */
export async function* readSlice(
  path: string,
  start: number,
  length: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  using file = await Deno.open(path);
  await file.seek(start, Deno.SeekMode.Start);
  for (let left = length; left > 0;) {
    signal?.throwIfAborted();
    const buffer = new Uint8Array(Math.min(left, CHUNK));
    const count = await file.read(buffer);
    if (count === null) {
      throw new SvcError("archive_invalid", `Cannot read ${path}: it is cut short`);
    }
    left -= count;
    yield buffer.subarray(0, count);
  }
}

/** The files of a folder. Links are followed, since the folder belongs to the user. */
export function directoryFiles(root: string): LayoutFiles {
  return {
    label: root,
    async size(path) {
      try {
        const info = await Deno.stat(join(root, path));
        return info.isFile ? info.size : undefined;
      } catch (error) {
        if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
          return undefined;
        }
        throw error;
      }
    },
    open: (path, start, end, signal) =>
      ReadableStream.from(readSlice(join(root, path), start, end - start, signal)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/**
 * Reads a file of at most 32 MiB; undefined where it is missing. Throws `archive_invalid` where it is larger.
 */
export async function readWhole(
  files: LayoutFiles,
  path: string,
  signal?: AbortSignal,
): Promise<Uint8Array | undefined> {
  const size = await files.size(path);
  if (size === undefined) return undefined;
  if (size > MAX_DOCUMENT) {
    throw new SvcError(
      "archive_invalid",
      `Cannot read ${files.label}: ${path} has ${size} bytes, which no such document has`,
    );
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for await (const chunk of files.open(path, 0, size, signal)) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

/** Reads a JSON document; undefined where it is missing. Throws `archive_invalid` where it is not JSON. */
export async function readDocument(
  files: LayoutFiles,
  path: string,
  signal?: AbortSignal,
): Promise<unknown> {
  const bytes = await readWhole(files, path, signal);
  if (!bytes) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new SvcError("archive_invalid", `Cannot read ${files.label}: ${path} is not JSON`, {
      cause,
    });
  }
}
