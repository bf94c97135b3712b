/**
 * Where records, tags and referrer entries are: as a rule under one key. A store that several processes write may
 * also hold copies under keys of their own. A copy is made where a remover that does not end might still delete
 * the first key (gc/guard.ts).
 */
import { copiesPrefix, copyKey } from "./keys.ts";
import type { CallOptions, ObjectInfo, ObjectStore } from "./object_store.ts";

export class RecordPlaces {
  constructor(private readonly objects: ObjectStore) {}

  /** Newest first. */
  async #copies(key: string, call: CallOptions): Promise<ObjectInfo[]> {
    // A store with one process has no copies: a push waits for a removal to end instead.
    if (this.objects.exclusive) return [];
    const found: ObjectInfo[] = [];
    for await (const entry of this.objects.list(copiesPrefix(key), call)) {
      if ("key" in entry) found.push(entry);
    }
    return found.sort((a, b) => b.modified.getTime() - a.modified.getTime());
  }

  /** All keys that the object may have now. Who deletes them in this order never uncovers an older copy. */
  async keys(key: string, call: CallOptions = {}): Promise<string[]> {
    return [...(await this.#copies(key, call)).map((copy) => copy.key), key];
  }

  async has(key: string, call: CallOptions = {}): Promise<boolean> {
    return await this.objects.stat(key, call) !== undefined ||
      (await this.#copies(key, call)).length > 0;
  }

  async read(key: string, call: CallOptions = {}): Promise<Uint8Array | undefined> {
    for (;;) {
      const first = await this.#bytes(key, call);
      if (first) return first;
      const copies = await this.#copies(key, call);
      if (copies.length === 0) return undefined;
      for (const copy of copies) {
        const bytes = await this.#bytes(copy.key, call);
        if (bytes) return bytes;
      }
      // Newer ones took their place meanwhile, or all was removed.
    }
  }

  async #bytes(key: string, call: CallOptions): Promise<Uint8Array | undefined> {
    if (this.objects.read) return await this.objects.read(key, call);
    const body = await this.objects.get(key, call);
    return body && await new Response(body.stream() as BodyInit).bytes();
  }

  /** `copy`: a remover may still delete the first key; the copy is new, so nobody deletes that one. */
  async put(
    key: string,
    bytes: Uint8Array,
    { copy, ...call }: CallOptions & { copy: boolean },
  ): Promise<void> {
    const older = copy ? await this.#copies(key, call) : [];
    if (copy) await this.objects.put(copyKey(key), bytes, call);
    await this.objects.put(key, bytes, call);
    for (const { key } of older) await this.objects.delete(key, call);
  }

  /**
   * Makes a copy of an existing record that others wrote, and no copy where `confirm` throws afterwards. Not for
   * tags: another process may be moving the tag.
   */
  async rescue(key: string, confirm: () => Promise<void>, call: CallOptions = {}): Promise<void> {
    const older = await this.#copies(key, call);
    const bytes = await this.read(key, call);
    if (!bytes) return;
    const copy = copyKey(key);
    await this.objects.put(copy, bytes, call);
    try {
      await confirm();
    } catch (error) {
      await this.objects.delete(copy);
      throw error;
    }
    for (const { key } of older) await this.objects.delete(key, call);
  }

  /** In this order. True where one of them was there. */
  async delete(keys: readonly string[], call: CallOptions = {}): Promise<boolean> {
    let there = false;
    for (const key of keys) there = await this.objects.delete(key, call) || there;
    return there;
  }
}
