/**
 * Where a blob's bytes are. One place as a rule, `blobs/…`; on a store that several processes write also
 * copies under keys of their own, made where a dead collector may still delete the first (gc/guard.ts).
 */
import type { ByteRange } from "../oci/image.ts";
import type { Digest } from "../oci/types.ts";
import { blobKey, rescuedPrefix } from "./keys.ts";
import type { CallOptions, ObjectBody, ObjectInfo, ObjectStore } from "./object_store.ts";

export class BlobPlaces {
  constructor(private readonly objects: ObjectStore) {}

  async *#rescued(digest: Digest, call: CallOptions): AsyncGenerator<string> {
    // One process waits for its own removals instead.
    if (this.objects.exclusive) return;
    for await (const entry of this.objects.list(rescuedPrefix(digest), call)) {
      if ("key" in entry) yield entry.key;
    }
  }

  async stat(digest: Digest, call: CallOptions = {}): Promise<ObjectInfo | undefined> {
    const found = await this.objects.stat(blobKey(digest), call);
    if (found) return found;
    for await (const key of this.#rescued(digest, call)) {
      const copy = await this.objects.stat(key, call);
      if (copy) return copy;
    }
    return undefined;
  }

  async get(
    digest: Digest,
    call: CallOptions & { range?: ByteRange } = {},
  ): Promise<ObjectBody | undefined> {
    const found = await this.objects.get(blobKey(digest), call);
    if (found) return found;
    for await (const key of this.#rescued(digest, { signal: call.signal })) {
      const copy = await this.objects.get(key, call);
      if (copy) return copy;
    }
    return undefined;
  }

  /** Keys under which it is there now. */
  async keys(digest: Digest, call: CallOptions = {}): Promise<string[]> {
    const keys = await Array.fromAsync(this.#rescued(digest, call));
    if (await this.objects.stat(blobKey(digest), call)) keys.unshift(blobKey(digest));
    return keys;
  }

  /**
   * Makes sure that the blob, where it is there at all, is there under a key that is not in `condemned`.
   * A source that vanishes in mid-copy means that it is not there.
   */
  async rescue(
    digest: Digest,
    condemned: (key: string) => boolean,
    call: CallOptions = {},
  ): Promise<void> {
    const keys = await this.keys(digest, call);
    if (keys.length === 0 || keys.some((key) => !condemned(key))) return;
    for (const from of keys) {
      const body = await this.objects.get(from, call);
      if (!body) continue;
      await this.objects.put(rescuedPrefix(digest) + crypto.randomUUID(), body.stream(), {
        ...call,
        size: body.total,
      });
      return;
    }
  }

  /** True where there was one. */
  async delete(digest: Digest, call: CallOptions = {}): Promise<boolean> {
    const keys = await this.keys(digest, call);
    for (const key of keys) await this.objects.delete(key, call);
    return keys.length > 0;
  }
}
