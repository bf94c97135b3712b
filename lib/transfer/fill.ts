/** Writes a blob to its place in a local file; continues where an earlier attempt ended. */
import { SvcError } from "../base/errors.ts";
import { createDigester, type Digester, parseDigest } from "../oci/digest.ts";
import type { Descriptor } from "../oci/types.ts";
import type { BlobCall, BlobOrigin } from "./sink.ts";

export interface Slot {
  path: string;
  /** Offset of the blob's first byte in the file. */
  base: number;
  /** Bytes that an earlier attempt left there. */
  have: number;
  /** Called with the number of bytes written so far, and at the end of each attempt, failed or not. */
  note?: (bytes: number) => void;
  /** True: the blob is flushed to the disk before `fill` resolves. */
  sync: boolean;
}

const CHUNK = 1024 * 1024;

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}

/** Feeds the existing bytes to the digest; returns how many there really are. */
async function rehash(
  file: Deno.FsFile,
  slot: Slot,
  digester: Digester,
  signal: AbortSignal,
): Promise<number> {
  await file.seek(slot.base, Deno.SeekMode.Start);
  let at = 0;
  const buffer = new Uint8Array(CHUNK);
  while (at < slot.have) {
    signal.throwIfAborted();
    const count = await file.read(buffer.subarray(0, Math.min(CHUNK, slot.have - at)));
    if (count === null) break;
    digester.update(buffer.subarray(0, count));
    at += count;
  }
  return at;
}

const sizeError = (digest: string, why: string) =>
  new SvcError("size_invalid", `Cannot accept ${digest}: ${why}`);

async function attempt(
  slot: Slot,
  { digest, size }: Descriptor,
  origin: BlobOrigin,
  { signal, report }: BlobCall,
): Promise<void> {
  using file = await Deno.open(slot.path, { read: true, write: true, create: true });
  const digester = createDigester(parseDigest(digest).algorithm);
  let at = await rehash(file, slot, digester, signal);
  report(at);
  const buffer = new Uint8Array(CHUNK);
  let used = 0;
  const flush = async () => {
    if (used === 0) return;
    const bytes = buffer.subarray(0, used);
    used = 0;
    await writeAll(file, bytes);
    digester.update(bytes);
    at += bytes.length;
    slot.note?.(at);
    report(at);
  };
  await file.seek(slot.base + at, Deno.SeekMode.Start);
  try {
    if (at < size) {
      for await (let chunk of await origin.open(at, signal)) {
        if (at + used + chunk.length > size) {
          throw sizeError(digest, `it has more than ${size} bytes`);
        }
        while (chunk.length > 0) {
          const taken = Math.min(chunk.length, CHUNK - used);
          buffer.set(chunk.subarray(0, taken), used);
          used += taken;
          chunk = chunk.subarray(taken);
          if (used === CHUNK) await flush();
        }
      }
    }
  } finally {
    // Bytes that came before a failure are kept.
    await flush();
    slot.note?.(at);
  }
  if (at !== size) throw sizeError(digest, `expected ${size} bytes, got ${at}`);
  const actual = digester.digest();
  if (actual !== digest) {
    slot.note?.(0);
    throw new SvcError(
      "digest_invalid",
      `Cannot accept ${digest}: the bytes have the digest ${actual}`,
    );
  }
  if (slot.sync) await file.sync();
}

/**
 * Completes the blob at `slot` and verifies the whole. If bytes of an earlier attempt were wrong, the blob is
 * fetched again once.
 */
export async function fill(
  slot: Slot,
  descriptor: Descriptor,
  origin: BlobOrigin,
  call: BlobCall,
): Promise<void> {
  try {
    await attempt(slot, descriptor, origin, call);
  } catch (error) {
    const damaged = error instanceof SvcError && error.code === "digest_invalid";
    if (!damaged || slot.have === 0) throw error;
    await attempt({ ...slot, have: 0 }, descriptor, origin, call);
  }
}
