/** Repositories, manifests, tags and referrers: small records over shared blobs. */
import { SvcError } from "../base/errors.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { digestOf, isDigest, parseDigest } from "../oci/digest.ts";
import type { ResolvedManifest } from "../oci/image.ts";
import type { ParsedManifest } from "../oci/manifest.ts";
import { isTag } from "../oci/reference.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { BlobPlaces } from "./blob_places.ts";
import type { Guard, PublishStep } from "./gc/guard.ts";
import {
  blobKey,
  manifestKey,
  MANIFESTS,
  referrerKey,
  referrersPrefix,
  repoKey,
  tagKey,
  unescapeName,
} from "./keys.ts";
import { ReadCache } from "./lru.ts";
import type { NameList } from "./name_index.ts";
import { type ListOptions, StoreNames } from "./names.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import {
  checked,
  type ManifestRecord,
  type Publication,
  type PublishOptions,
} from "./publication.ts";
import { RecordPlaces } from "./record_places.ts";
import { checkReferences, type ReferenceOptions } from "./references.ts";
import { covers, NOTHING, type Standing, standing } from "./standing.ts";

/** Bytes of manifests, and number of tags, that are remembered for an exclusive store. */
const CACHED_BYTES = 16 * 1024 * 1024;
const CACHED_TAGS = 20_000;
/** Referrers that are read at once; each may have annotations of 4 MiB. */
const READ_AHEAD = 8;

/** Errors of a publication whose blobs were collected while it ran. */
const LOST: unknown[] = ["manifest_blob_unknown", "unavailable"];

export interface ManifestUse {
  repository: string;
  digest: Digest;
}

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

export class Manifests {
  #locks = new KeyedMutex();
  #tags?: ReadCache<Digest>;
  #manifests?: ReadCache<ResolvedManifest>;
  #names: StoreNames;
  /** Of records, tags and referrer entries. */
  readonly places: RecordPlaces;

  constructor(
    private readonly objects: ObjectStore,
    private readonly blobs: BlobPlaces,
    private readonly guard: Guard,
  ) {
    this.places = new RecordPlaces(objects);
    this.#names = new StoreNames(objects);
    if (!objects.exclusive) return;
    this.#tags = new ReadCache(CACHED_TAGS, () => 1);
    this.#manifests = new ReadCache(CACHED_BYTES, (manifest) => manifest.bytes.length + 512);
  }

  async #json<T>(key: string, options: CallOptions): Promise<T | undefined> {
    const bytes = await this.places.read(key, options);
    return bytes && JSON.parse(new TextDecoder().decode(bytes)) as T;
  }

  async #digestOfTag(repository: string, tag: string, options: CallOptions) {
    const key = tagKey(repository, tag);
    const load = async () => {
      const bytes = await this.places.read(key, options);
      return bytes && new TextDecoder().decode(bytes);
    };
    return await (this.#tags ? this.#tags.read(key, load) : load());
  }

  /** The returned bytes are shared with later callers: do not change them. */
  async resolve(
    repository: string,
    reference: string,
    options: CallOptions = {},
  ): Promise<ResolvedManifest | undefined> {
    const byTag = isTag(reference);
    if (!byTag && !isDigest(reference)) return undefined;
    const digest = byTag ? await this.#digestOfTag(repository, reference, options) : reference;
    if (!digest) return undefined;
    const load = () => this.#load(repository, digest, options);
    const key = manifestKey(repository, digest);
    return await (this.#manifests ? this.#manifests.read(key, load) : load());
  }

  async #load(
    repository: string,
    digest: Digest,
    options: CallOptions,
  ): Promise<ResolvedManifest | undefined> {
    const record = await this.record(repository, digest, options);
    const body = record && await this.blobs.get(digest, options);
    const bytes = body && await new Response(body.stream() as BodyInit).bytes();
    if (!bytes) return undefined;
    const actual = digestOf(bytes, parseDigest(digest).algorithm);
    if (actual !== digest) {
      await this.blobs.damage.tell(body.key, `its bytes have the digest ${actual}`);
      return undefined;
    }
    const { mediaType, size } = record;
    return { descriptor: { mediaType, digest, size }, bytes };
  }

  /** Stores, then indexes, then tags: a publication that a crash interrupts was not acknowledged and harms nobody. */
  async publish(
    repository: string,
    mediaType: string | undefined,
    bytes: Uint8Array,
    options: PublishOptions = {},
  ): Promise<{ descriptor: Descriptor; subject?: Digest }> {
    const { tags = [], signal } = options;
    const publication = checked(repository, mediaType, bytes, options);
    const { manifest, digest, leased } = publication;
    const keys = [
      ...leased,
      blobKey(digest),
      manifestKey(repository, digest),
      ...tags.map((tag) => tagKey(repository, tag)),
    ];
    const published = this.guard.publish(
      keys,
      (step) => this.#change(repository, () => this.#write(publication, step, options)),
      { signal },
    );
    await published.catch(async (error) => {
      if (this.guard.shared && LOST.includes((error as SvcError).code)) {
        // Where this fails too, the check of the store reports the record, and the next push repairs it.
        await this.#takeBack(repository, digest, { manifest, tags }).catch(() => {});
      }
      throw error;
    });
    // Each digest once, however often the manifest names it: it was leased once.
    this.guard.release(repository, [...new Set(leased)]);
    return {
      descriptor: publication.descriptor,
      ...(manifest.subject && { subject: manifest.subject.digest }),
    };
  }

  /** Writes what is published, in the order in which a crash may interrupt it. */
  async #write(
    { repository, manifest, digest, bytes, descriptor, record, leased }: Publication,
    step: PublishStep,
    { tags = [], sparse, signal }: PublishOptions,
  ): Promise<void> {
    const { objects, blobs, places } = this;
    for (const key of leased.filter(step.threatened)) {
      await places.rescue(key, step.confirm, { signal });
    }
    const lookups = this.#lookups(repository, { signal });
    const complete = await checkReferences(manifest, { ...lookups, sparse });
    await blobs.put(digest, bytes, { signal });
    await step.secure(digest);
    await this.#names.writeRepository(
      repository,
      () => objects.put(repoKey(repository), new Uint8Array(), { ifAbsent: true, signal }),
    );
    const key = manifestKey(repository, digest);
    const copy = step.threatened(key);
    const written = encode({ ...record, ...(!complete && { sparse: true }) });
    await places.put(key, written, { copy, signal });
    this.#manifests?.forget(key);
    await step.confirm();
    const { subject, artifactType, annotations } = manifest;
    if (subject) {
      const referrer = encode({ ...descriptor, artifactType, annotations });
      // It goes with the record: what threatens that one threatens it.
      await places.put(referrerKey(repository, subject.digest, digest), referrer, { copy, signal });
    }
    for (const tag of tags) await this.#tag(repository, tag, digest, step, signal);
    // The manifest may be part of an index that is still to be pushed.
    if (tags.length === 0) await this.guard.lease(repository, key, { signal });
  }

  async #tag(
    repository: string,
    tag: string,
    digest: Digest,
    step: PublishStep,
    signal?: AbortSignal,
  ): Promise<void> {
    const key = tagKey(repository, tag);
    const bytes = new TextEncoder().encode(digest);
    const copy = step.threatened(key);
    try {
      await this.#names.writeTag(
        repository,
        tag,
        true,
        () => this.places.put(key, bytes, { copy, signal }),
      );
    } finally {
      this.#tags?.forget(key);
    }
  }

  /** Runs one change of a repository at a time. */
  #change<T>(repository: string, work: () => Promise<T>): Promise<T> {
    return this.#locks.run(repository, work);
  }

  async delete(repository: string, reference: string, options: CallOptions = {}): Promise<boolean> {
    if (isTag(reference)) {
      return await this.#change(repository, async () => {
        const keys = await this.places.keys(tagKey(repository, reference), options);
        return await this.#untag(repository, reference, keys);
      });
    }
    if (!isDigest(reference)) return false;
    const key = manifestKey(repository, reference);
    if (!await this.places.has(key, options)) return false;
    // On a shared store its tags are condemned, too: another process may be moving a tag to it.
    const look = () => standing(this, { repository, digest: reference }, options);
    let found = this.guard.shared ? await look() : NOTHING;
    for (;;) {
      const keys = [key, ...[...found.tags.keys()].map((tag) => tagKey(repository, tag))];
      const done = await this.guard.withdraw(keys, (begin) =>
        this.#change(repository, async () => {
          const now = await look();
          if (!now.record) return false;
          if (this.guard.shared && !covers(found, now)) {
            found = now;
            return undefined;
          }
          begin();
          await this.#remove(repository, reference, now);
          return true;
        }), options);
      if (done !== undefined) return done;
    }
  }

  /** Removes the record and the tags of a failed publication, unless all its references exist. */
  async #takeBack(
    repository: string,
    digest: Digest,
    { manifest, tags }: { manifest: ParsedManifest; tags: string[] },
  ): Promise<void> {
    const keys = [manifestKey(repository, digest), ...tags.map((tag) => tagKey(repository, tag))];
    const subject = manifest.subject?.digest;
    const look = (tags: Iterable<string>) => standing(this, { repository, digest, subject, tags });
    const found = await look(tags);
    if (!found.record && found.tags.size === 0) return;
    await this.guard.withdraw(keys, (begin) =>
      this.#change(repository, async () => {
        const { record, tags } = await look(found.tags.keys());
        if (record && await this.#isWhole(repository, digest, { manifest, record })) return;
        begin();
        // Copies that were made since are those of others, who see to them.
        const still = [...found.tags].filter(([tag]) => tags.has(tag));
        await this.#remove(repository, digest, { ...found, tags: new Map(still) });
      }));
  }

  /** Takes no signal: after an abort nobody would know whether a deletion was done. */
  async #remove(repository: string, digest: Digest, { tags, keys }: Standing): Promise<void> {
    for (const [tag, keys] of tags) await this.#untag(repository, tag, keys);
    await this.places.delete(keys);
    this.#manifests?.forget(manifestKey(repository, digest));
  }

  async #isWhole(
    repository: string,
    digest: Digest,
    { manifest, record }: { manifest: ParsedManifest; record: ManifestRecord },
  ): Promise<boolean> {
    if (!await this.blobs.stat(digest)) return false;
    if (record.sparse) return true;
    try {
      return await checkReferences(manifest, this.#lookups(repository, {}));
    } catch (error) {
      if ((error as SvcError).code === "manifest_blob_unknown") return false;
      throw error;
    }
  }

  #lookups(repository: string, call: CallOptions): ReferenceOptions {
    const { blobs } = this;
    return {
      blob: (digest) => blobs.stat(digest, call),
      manifest: (digest) => this.has(repository, digest, call),
      sound: (digest) => blobs.sound(digest, call),
    };
  }

  #untag(repository: string, tag: string, keys: string[]): Promise<boolean> {
    return this.#names.writeTag(repository, tag, false, () => this.places.delete(keys))
      .finally(() => this.#tags?.forget(tagKey(repository, tag)));
  }

  /** For collections: removes all keys of a manifest without tags. No other work may use them meanwhile. */
  async drop(repository: string, key: string, keys: string[]): Promise<void> {
    await this.#change(repository, () => this.places.delete(keys));
    this.#manifests?.forget(key);
  }

  has(repository: string, digest: Digest, options: CallOptions = {}): Promise<boolean> {
    return this.places.has(manifestKey(repository, digest), options);
  }

  /** The digest that a tag names; undefined: no such tag. */
  tagged(repository: string, tag: string, options: CallOptions = {}): Promise<Digest | undefined> {
    return this.#digestOfTag(repository, tag, options);
  }

  record(
    repository: string,
    digest: Digest,
    options: CallOptions = {},
  ): Promise<ManifestRecord | undefined> {
    return this.#json(manifestKey(repository, digest), options);
  }

  tags(repository: string, options?: ListOptions): NameList {
    return this.#names.tags(repository, options);
  }

  repositories(options?: ListOptions): NameList {
    return this.#names.repositories(options);
  }

  async hasRepository(repository: string, options: CallOptions = {}): Promise<boolean> {
    return await this.objects.stat(repoKey(repository), options) !== undefined;
  }

  /** The referrers in byte order of their digests. */
  async *referrers(
    repository: string,
    subject: Digest,
    options: CallOptions & { after?: Digest } = {},
  ): AsyncGenerator<Descriptor> {
    parseDigest(subject);
    const prefix = referrersPrefix(repository, subject);
    const reading: Promise<Descriptor | undefined>[] = [];
    const next = async () => await reading.shift();
    for await (const digest of this.#names.below(prefix, options)) {
      const read = this.#json<Descriptor>(prefix + digest, options);
      // Awaited later; marked so that it never counts as unhandled before.
      read.catch(() => {});
      reading.push(read);
      const found = reading.length === READ_AHEAD ? await next() : undefined;
      if (found) yield found;
    }
    while (reading.length > 0) {
      const found = await next();
      if (found) yield found;
    }
  }

  /** A manifest that refers to `digest`, or has it. Reads every record: for deletes only. */
  async userOf(digest: Digest, options: CallOptions = {}): Promise<ManifestUse | undefined> {
    for await (const user of this.usersOf(digest, options)) return user;
    return undefined;
  }

  /** All manifests that refer to `digest`, or have it. */
  async *usersOf(digest: Digest, options: CallOptions = {}): AsyncGenerator<ManifestUse> {
    for await (const path of this.#names.below(MANIFESTS, options)) {
      const [name, own] = path.split("/");
      const uses = own === digest ||
        (await this.#json<ManifestRecord>(MANIFESTS + path, options))?.references.includes(digest);
      if (uses) yield { repository: unescapeName(name), digest: own };
    }
  }
}
