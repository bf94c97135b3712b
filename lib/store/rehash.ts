/** Reads and hashes the object under a blob's key. */
import { createDigester, parseDigest } from "../oci/digest.ts";
import type { Digest } from "../oci/types.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";

/** Bytes that are hashed in one piece, so that the event loop is not blocked for longer. */
const PIECE = 256 * 1024;

export interface Rehashed {
  size: number;
  digest: Digest;
}

/** Undefined: the object vanished. `passed` is awaited after each piece. */
export async function rehash(
  objects: ObjectStore,
  key: string,
  expected: Digest,
  { signal, passed }: CallOptions & { passed?: (bytes: number) => Promise<void> } = {},
): Promise<Rehashed | undefined> {
  const body = await objects.get(key, { signal });
  if (!body) return undefined;
  const digester = createDigester(parseDigest(expected).algorithm);
  for await (const chunk of body.stream()) {
    signal?.throwIfAborted();
    for (let at = 0; at < chunk.length; at += PIECE) {
      const piece = chunk.subarray(at, at + PIECE);
      digester.update(piece);
      await passed?.(piece.length);
    }
  }
  return { size: body.total, digest: digester.digest() };
}
