/**
 * Which tags of the store are a mirror's doing, durable: all others were pushed here, and what was pushed
 * is never replaced by an upstream's.
 */
import type { Digest } from "../../oci/types.ts";
import { mirrorKey } from "../../store/keys.ts";
import type { CallOptions, ObjectStore } from "../../store/object_store.ts";

export class TagRecords {
  constructor(private readonly objects: ObjectStore) {}

  /** What the mirror gave the tag: two digests while it moves, none where it has nothing to do with it. */
  async digests(repository: string, tag: string, options?: CallOptions): Promise<Digest[]> {
    const body = await this.objects.get(mirrorKey(repository, tag), options);
    return body ? (await new Response(body.stream() as BodyInit).text()).split("\n") : [];
  }

  /** To be called before the tag moves: a crash in between must leave it the mirror's. */
  async set(repository: string, tag: string, digests: Digest[]): Promise<void> {
    const bytes = new TextEncoder().encode([...new Set(digests)].join("\n"));
    await this.objects.put(mirrorKey(repository, tag), bytes);
  }

  async delete(repository: string, tag: string): Promise<void> {
    await this.objects.delete(mirrorKey(repository, tag));
  }
}
