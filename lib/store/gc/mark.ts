/** What manifests refer to, and which manifests nothing refers to. */
import type { Digest } from "../../oci/types.ts";
import {
  BLOBS,
  digestOfKey,
  firstKey,
  manifestKey,
  MANIFESTS,
  manifestsPrefix,
  unescapeName,
} from "../keys.ts";
import type { Manifests } from "../manifests.ts";
import type { ManifestRecord } from "../publication.ts";
import type { CallOptions, ObjectStore } from "../object_store.ts";
import { DigestSet } from "./digest_set.ts";
import { eachOf } from "./each.ts";

/** Records that are read at once. */
const READS = 32;
/** Digests that the set has room for from the start. */
const SMALL_STORE = 16_384;

/** What happens to untagged manifests: they stay, go at once, or go at this age in milliseconds. */
export type Retention = "keep" | "drop" | number;

/** "manifests/a.b/sha256:…" as repository and digest. */
export function manifestOfKey(key: string): { repository: string; digest: Digest } {
  const [, name, digest] = key.split("/");
  return { repository: unescapeName(name), digest };
}

/** The digests that manifests refer to; the set only grows. */
export class Mark {
  #live = new DigestSet(SMALL_STORE);
  /** Records that were read. Not needed where nobody else writes records: there one scan is enough. */
  #seen?: DigestSet;

  constructor(private readonly objects: ObjectStore, private readonly manifests: Manifests) {
    if (!objects.exclusive) this.#seen = new DigestSet();
  }

  /** True where this key's blob is a manifest, or a manifest refers to it. */
  holds(key: string): boolean {
    if (key.startsWith(BLOBS)) return this.#live.hasHexAt(key, key.lastIndexOf("/") + 1);
    const digest = digestOfKey(key);
    return digest !== undefined && this.#live.has(digest);
  }

  /** Adds the blobs among the keys of a publication. */
  add(keys: string[]): void {
    for (const key of keys) {
      const digest = digestOfKey(key);
      if (digest !== undefined) this.#live.add(digest);
    }
  }

  /** Reads the records that no earlier scan has seen. */
  async scan(call: CallOptions, skip?: (key: string) => boolean): Promise<void> {
    const fresh = async function* (this: Mark) {
      for await (const entry of this.objects.list(MANIFESTS, { ...call, brief: true })) {
        if (!("key" in entry)) continue;
        const key = firstKey(entry.key);
        if (!this.#seen?.hasKey(key) && !skip?.(key)) yield key;
      }
    };
    await eachOf(fresh.call(this), READS, async (key) => {
      const { repository, digest } = manifestOfKey(key);
      const record = await this.manifests.record(repository, digest, call);
      if (!record) return;
      this.#hold(key, record);
      this.#seen?.addKey(key);
    });
  }

  #hold(key: string, { references }: ManifestRecord): void {
    this.#live.add(manifestOfKey(key).digest);
    for (const reference of references) this.#live.add(reference);
  }
}

export interface DeadManifest {
  subject?: Digest;
  /** All keys of the record, in the order in which they go. */
  keys: string[];
}

/**
 * A repository's manifests that may be removed, by the first keys of their records: a manifest stays if it is tagged
 * or young enough, belongs to an index that stays, or refers to a subject that stays. `now` is by the store's clock.
 */
export async function deadManifests(
  { objects, manifests }: { objects: ObjectStore; manifests: Manifests },
  repository: string,
  { retention, now }: { retention: Retention; now: Date },
  call: CallOptions,
): Promise<Map<string, DeadManifest>> {
  const dead = new Map<string, DeadManifest>();
  if (retention === "keep") return dead;
  const records = new Map<Digest, { references: Digest[]; subject?: Digest }>();
  const copies = new Map<Digest, string[]>();
  const referrers = new Map<Digest, Digest[]>();
  const waiting: Digest[] = [];
  // Listed before the tags: a manifest that is published and tagged from now on is not in this list.
  const entries = objects.list(manifestsPrefix(repository), call);
  await eachOf(entries, READS, async (entry) => {
    if (!("key" in entry)) return;
    const first = firstKey(entry.key);
    const { digest } = manifestOfKey(first);
    if (entry.key !== first) copies.set(digest, [...copies.get(digest) ?? [], entry.key]);
    const record = await manifests.record(repository, digest, call);
    if (!record) return;
    const { references, subject } = record;
    records.set(digest, { references, subject });
    if (subject) referrers.set(subject, [...referrers.get(subject) ?? [], digest]);
    const age = now.getTime() - entry.modified.getTime();
    if (retention !== "drop" && age < retention) waiting.push(digest);
  });
  if (records.size === 0) return dead;
  for await (const tag of manifests.tags(repository, call)) {
    const digest = await manifests.tagged(repository, tag, call);
    if (digest) waiting.push(digest);
  }
  const live = new Set<Digest>();
  for (let digest = waiting.pop(); digest !== undefined; digest = waiting.pop()) {
    const record = records.get(digest);
    if (!record || live.has(digest)) continue;
    live.add(digest);
    waiting.push(...record.references, ...referrers.get(digest) ?? []);
  }
  for (const [digest, { subject }] of records) {
    if (live.has(digest)) continue;
    const key = manifestKey(repository, digest);
    dead.set(key, { subject, keys: [...copies.get(digest) ?? [], key] });
  }
  return dead;
}
