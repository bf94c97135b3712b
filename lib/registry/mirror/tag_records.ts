/**
 * Durable records of the tags that the mirror set in the store. All other tags were pushed here, and an
 * upstream never replaces a pushed tag.
 */
import type { Digest } from "../../oci/types.ts";
import { mirrorKey } from "../../store/keys.ts";
import type { CallOptions, ObjectStore } from "../../store/object_store.ts";

export class TagRecords {
  constructor(private readonly objects: ObjectStore) {}

  /** Digests that the mirror gave the tag: two while it moves the tag, none where the tag is not the mirror's. */
  async digests(repository: string, tag: string, options?: CallOptions): Promise<Digest[]> {
    const body = await this.objects.get(mirrorKey(repository, tag), options);
    return body ? (await new Response(body.stream() as BodyInit).text()).split("\n") : [];
  }

  /** Call it before the tag moves: after a crash in between, the tag must still count as the mirror's. */
  async set(repository: string, tag: string, digests: Digest[]): Promise<void> {
    const bytes = new TextEncoder().encode([...new Set(digests)].join("\n"));
    await this.objects.put(mirrorKey(repository, tag), bytes);
  }

  async delete(repository: string, tag: string): Promise<void> {
    await this.objects.delete(mirrorKey(repository, tag));
  }
}
