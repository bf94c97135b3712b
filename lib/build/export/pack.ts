/**
 * Packs a layer: the archive streams in, the blob streams to a file. A Worker does it; a small archive is
 * done here, because starting a Worker takes longer. Which of the two depends on the archive alone, and
 * both give the same bytes.
 */
import { SvcError } from "../../base/errors.ts";
import { giveWorker, takeWorker } from "../../base/worker_pool.ts";
import { digestOf } from "../../oci/digest.ts";
import type { Digest } from "../../oci/types.ts";
import { type FromPacker, type Packing, packWhole, type ToPacker } from "./packer_wire.ts";

export interface PackedLayer {
  /** Digest of the archive. */
  diffID: Digest;
  /** Digest and bytes of the packed file. */
  digest: Digest;
  size: number;
}

/** Bytes of archives that are packed without a Worker: a few milliseconds. */
const SMALL = 128 * 1024;

/** Bytes on their way to the Worker, at most (and one chunk more). */
const WINDOW = 4 << 20;

/** Writes the packed `archive` to the new file `path`. */
export async function packLayer(
  archive: ReadableStream<Uint8Array>,
  path: string,
  packing: Packing,
  signal?: AbortSignal,
): Promise<PackedLayer> {
  signal?.throwIfAborted();
  const reader = archive.getReader();
  const head: Uint8Array<ArrayBuffer>[] = [];
  try {
    for (let size = 0; size <= SMALL;) {
      const { done, value } = await reader.read();
      if (done) {
        const whole = new Uint8Array(await new Blob(head).arrayBuffer());
        return await packSmall(whole, path, packing);
      }
      head.push(ownBuffer(value));
      size += value.length;
    }
    return await packInWorker(head, reader, path, packing, signal);
  } catch (error) {
    await reader.cancel(error).catch(() => {/* the first error is the one that counts */});
    throw error;
  }
}

async function packSmall(
  archive: Uint8Array<ArrayBuffer>,
  path: string,
  packing: Packing,
): Promise<PackedLayer> {
  const packed = packWhole(archive, packing);
  await Deno.writeFile(path, packed, { createNew: true });
  return { diffID: digestOf(archive), digest: digestOf(packed), size: packed.length };
}

async function packInWorker(
  head: Uint8Array<ArrayBuffer>[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
  path: string,
  packing: Packing,
  signal: AbortSignal | undefined,
): Promise<PackedLayer> {
  const worker = takeWorker("gzip");
  let done = false;
  const file = await Deno.open(path, { write: true, createNew: true });
  const { promise, resolve, reject } = Promise.withResolvers<PackedLayer>();
  // Observed below; a failure may come before anybody waits for it.
  promise.catch(() => {});
  const abort = () => reject(signal!.reason);
  signal?.addEventListener("abort", abort, { once: true });
  let inFlight = 0;
  let room = Promise.withResolvers<void>();
  let written: Promise<void> = Promise.resolve();
  worker.onerror = (event) => {
    event.preventDefault();
    reject(new SvcError("internal", `Cannot pack layer: the worker failed: ${event.message}`));
  };
  worker.onmessage = ({ data }: MessageEvent<FromPacker>) => {
    switch (data.type) {
      case "taken":
        inFlight -= data.bytes;
        room.resolve();
        return;
      case "chunk":
        written = written.then(() => writeAll(file, data.bytes));
        written.catch(reject);
        return;
      case "error":
        return reject(new SvcError("internal", `Cannot pack layer: ${data.message}`));
      case "done":
        written.then(() => resolve(data), reject);
    }
  };
  const send = (message: ToPacker, transfer: Transferable[] = []) =>
    worker.postMessage(message, transfer);
  try {
    send({ type: "begin", packing });
    for (;;) {
      const bytes = head.shift() ?? await nextChunk(reader);
      if (!bytes) break;
      inFlight += bytes.length;
      send({ type: "chunk", bytes }, [bytes.buffer]);
      while (inFlight > WINDOW) {
        room = Promise.withResolvers<void>();
        // A Worker that fails takes no more: the race throws what it said.
        await Promise.race([room.promise, promise]);
      }
    }
    send({ type: "end" });
    const { diffID, digest, size } = await promise;
    done = true;
    return { diffID, digest, size };
  } finally {
    signal?.removeEventListener("abort", abort);
    if (done) giveWorker("gzip", worker);
    else worker.terminate();
    await written.catch(() => {/* reported already */});
    file.close();
  }
}

async function nextChunk(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const { done, value } = await reader.read();
  return done ? undefined : ownBuffer(value);
}

/** A buffer that can be given away whole. */
function ownBuffer(chunk: Uint8Array): Uint8Array<ArrayBuffer> {
  return chunk.byteLength === chunk.buffer.byteLength && chunk.buffer instanceof ArrayBuffer
    ? chunk as Uint8Array<ArrayBuffer>
    : chunk.slice() as Uint8Array<ArrayBuffer>;
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}
