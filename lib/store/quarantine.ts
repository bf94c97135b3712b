/** Moves damaged objects aside: the bytes stay for inspection, and a push can bring the right ones. */
import type { Digest } from "../oci/types.ts";
import type { BlobPlaces } from "./blob_places.ts";
import { type Guard, IDLE_MS } from "./gc/guard.ts";
import { quarantineKey } from "./keys.ts";
import type { Manifests } from "./manifests.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import { rehash, type Rehashed } from "./rehash.ts";

export interface QuarantineParts {
  objects: ObjectStore;
  places: BlobPlaces;
  manifests: Manifests;
  guard: Guard;
}

export interface Checked {
  size: number;
  /** What is wrong; absent: the blob is sound. */
  message?: string;
  /**
   * The new key of the damaged object. Absent: it stays under its own key, for instance because a push counts
   * on it.
   */
  movedTo?: string;
}

/**
 * Reads and checks one blob. Undefined: it vanished. A damaged blob that stays under its key is marked as
 * damaged.
 */
export async function checkBlob(
  parts: QuarantineParts,
  key: string,
  expected: Digest,
  options: CallOptions & { aside: boolean; passed?: (bytes: number) => Promise<void> },
): Promise<Checked | undefined> {
  const { objects, places: { damage } } = parts;
  const { aside, passed, ...call } = options;
  const wrong = (read: Rehashed) => read.digest !== expected;
  const before = await objects.stat(key, call);
  let read = await rehash(objects, key, expected, { ...call, passed });
  // Read twice: a reading may fail although the stored bytes are right.
  if (read && wrong(read)) read = await rehash(objects, key, expected, call);
  if (!before || !read) return undefined;
  if (!wrong(read)) {
    await damage.good(key, read.size);
    return { size: read.size };
  }
  const message = `its ${read.size} bytes have the digest ${read.digest}`;
  await damage.tell(key, message);
  const unchanged = async () => {
    const now = await objects.stat(key, call);
    return now?.size === before.size && now.modified.getTime() === before.modified.getTime();
  };
  if (!await unchanged()) {
    // A push has replaced the object since it was read.
    await damage.gone(key);
    return { size: read.size };
  }
  const movedTo = aside ? await moveAside(parts, key, unchanged, call) : undefined;
  return { size: read.size, message, ...(movedTo && { movedTo }) };
}

/**
 * Copies before it deletes, so that the bytes always exist. An object that a push counts on stays: the push
 * replaces it.
 */
async function moveAside(
  { objects, places, guard }: QuarantineParts,
  key: string,
  unchanged: () => Promise<boolean>,
  call: CallOptions,
): Promise<string | undefined> {
  const to = quarantineKey(key);
  const body = await objects.get(key, call);
  if (!body) return undefined;
  await objects.put(to, body.stream(), { ...call, size: body.total });
  const { removed } = await guard.sweep([key], {
    ...call,
    idleMs: IDLE_MS,
    recheck: async (keys) => await unchanged() ? keys : [],
    remove: async (keys) => {
      if (keys.length > 0) await objects.delete(key);
    },
  });
  if (removed === 0) {
    await objects.delete(to);
    return undefined;
  }
  await places.damage.gone(key);
  return to;
}
