/** Moving bytes between files and streams, in pieces large enough to be cheap. */
import { SvcError, systemCode } from "../../../lib/base/errors.ts";

/** Bytes a read or write moves at once. */
export const PIECE = 256 * 1024;

/** A system error of a write, in the catalogue's terms. */
export function writeError(error: unknown, attempted: string): unknown {
  const full = ["ENOSPC", "EDQUOT"].includes(systemCode(error) ?? "");
  if (full) {
    return new SvcError("storage_full", `Cannot ${attempted}: no space left on the device`, {
      cause: error,
    });
  }
  return error;
}

/** `size` bytes from `offset` of an open file. */
export async function readExactly(
  file: Deno.FsFile,
  offset: number,
  size: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(size);
  if (offset > 0) await file.seek(offset, Deno.SeekMode.Start);
  for (let at = 0; at < size;) {
    const read = await file.read(bytes.subarray(at));
    if (read === null) {
      throw new SvcError("internal", `Cannot read: the file ends ${size - at} early`);
    }
    at += read;
  }
  return bytes;
}

/** One buffer as a stream. */
export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
}

/** Writes all of `bytes` at the file's position. */
export async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}

/**
 * The bytes `[offset, offset + size)` of a file. The file is opened when first read, and closed at the end, on
 * an error and on cancellation. A file that ends early is an error, not a short stream. A file of another size
 * than it `was` when first opened is an error, too: it was replaced.
 */
export function readFile(
  path: string,
  offset: number,
  size: number,
  was?: Pick<Deno.FileInfo, "ino" | "size">,
): ReadableStream<Uint8Array> {
  let file: Deno.FsFile | undefined;
  let left = size;
  const close = () => {
    file?.close();
    file = undefined;
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        if (left === 0) {
          close();
          return controller.close();
        }
        if (!file) {
          file = await Deno.open(path);
          const now = was && await file.stat();
          if (was && now && now.ino !== was.ino && now.size !== was.size) {
            throw new SvcError("conflict", `Cannot read ${path}: it was replaced`);
          }
          if (offset > 0) await file.seek(offset, Deno.SeekMode.Start);
        }
        const buffer = new Uint8Array(Math.min(PIECE, left));
        const read = await file.read(buffer);
        if (read === null) {
          throw new SvcError("internal", `Cannot read ${path}: it ends ${left} bytes early`);
        }
        left -= read;
        controller.enqueue(read === buffer.length ? buffer : buffer.subarray(0, read));
        if (left === 0) {
          close();
          controller.close();
        }
      } catch (error) {
        close();
        throw error;
      }
    },
    cancel: close,
  }, { highWaterMark: 0 });
}

/**
 * Writes a stream to a file. Chunks are gathered, so that a write is not paid per network packet, and the
 * next buffer fills while the last is written. Returns the bytes written.
 */
export async function writeStream(
  file: Deno.FsFile,
  body: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
): Promise<number> {
  let buffers: [Uint8Array, Uint8Array] = [new Uint8Array(PIECE), new Uint8Array(PIECE)];
  let filled = 0;
  let total = 0;
  let pending: Promise<void> = Promise.resolve();
  const write = async () => {
    const ready = buffers[0].subarray(0, filled);
    await pending;
    pending = writeAll(file, ready);
    // Awaited by the next round or at the end; marked so that it never counts as unhandled before.
    pending.catch(() => {});
    buffers = [buffers[1], buffers[0]];
    filled = 0;
  };
  try {
    for await (const chunk of body) {
      signal?.throwIfAborted();
      total += chunk.length;
      for (let at = 0; at < chunk.length;) {
        const part = Math.min(chunk.length - at, PIECE - filled);
        buffers[0].set(chunk.subarray(at, at + part), filled);
        filled += part;
        at += part;
        if (filled === PIECE) await write();
      }
    }
    if (filled > 0) await write();
  } finally {
    await pending;
  }
  return total;
}
