/** What there is of a manifest, for whoever removes it. */
import type { Digest } from "../oci/types.ts";
import { manifestKey, referrerKey, tagKey } from "./keys.ts";
import type { CallOptions } from "./object_store.ts";
import type { ManifestRecord } from "./publication.ts";
import type { RecordPlaces } from "./record_places.ts";

export interface Standing {
  record?: ManifestRecord;
  /** The keys of each tag. */
  tags: Map<string, string[]>;
  /** The keys of its referrer entry and of its record, in the order in which they go. */
  keys: string[];
}

export const NOTHING: Standing = { tags: new Map(), keys: [] };

/** What is asked of the manifests. */
interface Records {
  places: RecordPlaces;
  record(
    repository: string,
    digest: Digest,
    call: CallOptions,
  ): Promise<ManifestRecord | undefined>;
  tags(repository: string, call: CallOptions): AsyncIterable<string>;
  /** The digest that the tag names. */
  tagged(repository: string, tag: string, call: CallOptions): Promise<string | undefined>;
}

/** `tags`: those that may name it; default all. `subject`: where the record is not there to tell it. */
export async function standing(
  manifests: Records,
  of: { repository: string; digest: Digest; subject?: Digest; tags?: Iterable<string> },
  call: CallOptions = {},
): Promise<Standing> {
  const { repository, digest } = of;
  const { places } = manifests;
  const record = await manifests.record(repository, digest, call);
  const { subject } = record ?? of;
  const keys = [
    ...subject ? await places.keys(referrerKey(repository, subject, digest), call) : [],
    ...await places.keys(manifestKey(repository, digest), call),
  ];
  const tags = new Map<string, string[]>();
  for await (const tag of of.tags ?? manifests.tags(repository, call)) {
    if (await manifests.tagged(repository, tag, call) !== digest) continue;
    tags.set(tag, await places.keys(tagKey(repository, tag), call));
  }
  return { record, tags, keys };
}

const all = ({ tags, keys }: Standing) => new Set([...[...tags.values()].flat(), ...keys]);

/** True where `now` has nothing that `before` had not: a remover deletes what it saw before it said so. */
export const covers = (before: Standing, now: Standing): boolean =>
  all(now).isSubsetOf(all(before));
