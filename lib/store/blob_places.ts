/**
 * Where a blob's bytes are: as a rule under one key, `blobs/…`. A store that several processes write may also
 * hold copies under keys of their own. A copy is made where a dead collector might still delete the first key
 * (gc/guard.ts).
 */
import { Buffer } from "node:buffer";
import type { ByteRange } from "../oci/image.ts";
import type { Digest } from "../oci/types.ts";
import type { Damage } from "./damage.ts";
import { blobKey, rescuedPrefix } from "./keys.ts";
import type { CallOptions, ObjectBody, ObjectInfo, ObjectStore } from "./object_store.ts";
import { rehash } from "./rehash.ts";

export class BlobPlaces {
  constructor(private readonly objects: ObjectStore, readonly damage: Damage) {}

  async *#rescued(digest: Digest, call: CallOptions): AsyncGenerator<string> {
    // A store with one process has no copies: a push waits for a removal to end instead.
    if (this.objects.exclusive) return;
    for await (const entry of this.objects.list(rescuedPrefix(digest), call)) {
      if ("key" in entry) yield entry.key;
    }
  }

  async stat(digest: Digest, call: CallOptions = {}): Promise<ObjectInfo | undefined> {
    const look = async (key: string) => {
      const found = await this.objects.stat(key, call);
      return found && !await this.damage.has(key, found.size) ? found : undefined;
    };
    const found = await look(blobKey(digest));
    if (found) return found;
    for await (const key of this.#rescued(digest, call)) {
      const copy = await look(key);
      if (copy) return copy;
    }
    return undefined;
  }

  async get(
    digest: Digest,
    call: CallOptions & { range?: ByteRange } = {},
  ): Promise<ObjectBody & { key: string } | undefined> {
    const look = async (key: string) => {
      const found = await this.objects.get(key, call);
      return found && !await this.damage.has(key, found.total) ? { ...found, key } : undefined;
    };
    const found = await look(blobKey(digest));
    if (found) return found;
    for await (const key of this.#rescued(digest, { signal: call.signal })) {
      const copy = await look(key);
      if (copy) return copy;
    }
    return undefined;
  }

  /** Keys under which the blob exists now. */
  async keys(digest: Digest, call: CallOptions = {}): Promise<string[]> {
    const keys = await Array.fromAsync(this.#rescued(digest, call));
    if (await this.objects.stat(blobKey(digest), call)) keys.unshift(blobKey(digest));
    return keys;
  }

  /**
   * Makes sure that an existing blob has a key that is not in `condemned`. Where the source vanishes during the
   * copy, the blob is gone.
   */
  async rescue(
    digest: Digest,
    condemned: (key: string) => boolean,
    call: CallOptions = {},
  ): Promise<void> {
    const keys = await this.keys(digest, call);
    if (keys.length === 0 || keys.some((key) => !condemned(key))) return;
    for (const from of keys) {
      if (await this.damage.has(from)) continue;
      const body = await this.objects.get(from, call);
      if (!body) continue;
      await this.objects.put(rescuedPrefix(digest) + crypto.randomUUID(), body.stream(), {
        ...call,
        size: body.total,
      });
      return;
    }
  }

  /** Stores verified bytes; replaces an existing object with other bytes. */
  async put(digest: Digest, bytes: Uint8Array, call: CallOptions = {}): Promise<void> {
    const key = blobKey(digest);
    const { created } = await this.objects.put(key, bytes, { ...call, ifAbsent: true });
    if (!created && !await this.#holds(key, bytes, call)) await this.objects.put(key, bytes, call);
    await this.damage.good(key, bytes.length);
  }

  async #holds(key: string, bytes: Uint8Array, call: CallOptions): Promise<boolean> {
    const there = await this.objects.get(key, call);
    if (there?.size !== bytes.length) return false;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
      .equals(await new Response(there.stream() as BodyInit).bytes());
  }

  /**
   * For a blob that does not have the size that a manifest states: reads the blob, and returns true where its
   * bytes are right.
   */
  async sound(digest: Digest, call: CallOptions = {}): Promise<boolean> {
    const there = await this.stat(digest, call);
    if (!there) return false;
    const read = await rehash(this.objects, there.key, digest, call);
    if (read?.digest === digest) await this.damage.good(there.key, read.size);
    else if (read) {
      const message = `its ${read.size} bytes have the digest ${read.digest}`;
      await this.damage.tell(there.key, message);
    }
    return read?.digest === digest;
  }

  /** True where the blob existed. */
  async delete(digest: Digest, call: CallOptions = {}): Promise<boolean> {
    const keys = await this.keys(digest, call);
    for (const key of keys) {
      await this.objects.delete(key, call);
      await this.damage.gone(key);
    }
    return keys.length > 0;
  }
}
