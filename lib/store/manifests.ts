/** Repositories, manifests, tags and referrers: small records over shared blobs. */
import { SvcError } from "../base/errors.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { digestOf, isDigest, parseDigest } from "../oci/digest.ts";
import type { ResolvedManifest } from "../oci/image.ts";
import type { ParsedManifest } from "../oci/manifest.ts";
import { isTag } from "../oci/reference.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { BlobPlaces } from "./blob_places.ts";
import type { PublishOptions } from "./content_store.ts";
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
import type { CallOptions, ObjectBody, ObjectStore } from "./object_store.ts";
import { checked, type ManifestRecord, type Publication } from "./publication.ts";
import { checkReferences, type ReferenceOptions } from "./references.ts";

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

async function bytesOf(body: ObjectBody): Promise<Uint8Array> {
  return new Uint8Array(await new Response(body.stream() as BodyInit).arrayBuffer());
}

export class Manifests {
  #locks = new KeyedMutex();
  #tags?: ReadCache<Digest>;
  #manifests?: ReadCache<ResolvedManifest>;
  #names: StoreNames;

  constructor(
    private readonly objects: ObjectStore,
    private readonly places: BlobPlaces,
    private readonly guard: Guard,
  ) {
    this.#names = new StoreNames(objects);
    if (!objects.exclusive) return;
    this.#tags = new ReadCache(CACHED_TAGS, () => 1);
    this.#manifests = new ReadCache(CACHED_BYTES, (manifest) => manifest.bytes.length + 512);
  }

  async #read(key: string, options: CallOptions): Promise<Uint8Array | undefined> {
    if (this.objects.read) return await this.objects.read(key, options);
    const body = await this.objects.get(key, options);
    return body && await bytesOf(body);
  }

  async #json<T>(key: string, options: CallOptions): Promise<T | undefined> {
    const bytes = await this.#read(key, options);
    return bytes && JSON.parse(new TextDecoder().decode(bytes)) as T;
  }

  async #digestOfTag(repository: string, tag: string, options: CallOptions) {
    const key = tagKey(repository, tag);
    const load = async () => {
      const bytes = await this.#read(key, options);
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
    const body = record && await this.places.get(digest, options);
    const bytes = body && await bytesOf(body);
    if (!bytes) return undefined;
    const actual = digestOf(bytes, parseDigest(digest).algorithm);
    if (actual !== digest) {
      await this.places.damage.tell(body.key, `its bytes have the digest ${actual}`);
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
    { repository, manifest, digest, bytes, descriptor, record }: Publication,
    step: PublishStep,
    { tags = [], sparse, signal }: PublishOptions,
  ): Promise<void> {
    const { objects, places } = this;
    const lookups = this.#lookups(repository, { signal });
    const complete = await checkReferences(manifest, { ...lookups, sparse });
    await places.put(digest, bytes, { signal });
    await step.secure(digest);
    await this.#names.writeRepository(
      repository,
      () => objects.put(repoKey(repository), new Uint8Array(), { ifAbsent: true, signal }),
    );
    const key = manifestKey(repository, digest);
    await objects.put(key, encode({ ...record, ...(!complete && { sparse: true }) }), { signal });
    this.#manifests?.forget(key);
    await step.confirm();
    const { subject, artifactType, annotations } = manifest;
    if (subject) {
      const referrer = encode({ ...descriptor, artifactType, annotations });
      await objects.put(referrerKey(repository, subject.digest, digest), referrer, { signal });
    }
    for (const tag of tags) await this.#tag(repository, tag, digest, signal);
    // The manifest may be part of an index that is still to be pushed.
    if (tags.length === 0) await this.guard.lease(repository, key, { signal });
  }

  async #tag(repository: string, tag: string, digest: Digest, signal?: AbortSignal): Promise<void> {
    const key = tagKey(repository, tag);
    const bytes = new TextEncoder().encode(digest);
    try {
      await this.#names.writeTag(
        repository,
        tag,
        true,
        () => this.objects.put(key, bytes, { signal }),
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
      return await this.#change(repository, () => this.#untag(repository, reference, options));
    }
    if (!isDigest(reference)) return false;
    const key = manifestKey(repository, reference);
    if (!await this.objects.stat(key, options)) return false;
    // On a shared store its tags are condemned, too: another process may be moving a tag to it.
    let tagged = this.guard.shared ? await this.#tagsOf(repository, reference, options) : [];
    for (;;) {
      const keys = [key, ...tagged.map((tag) => tagKey(repository, tag))];
      const done = await this.guard.withdraw(keys, (begin) =>
        this.#change(repository, async () => {
          const record = await this.record(repository, reference, options);
          if (!record) return false;
          const now = await this.#tagsOf(repository, reference, options);
          if (this.guard.shared && now.some((tag) => !tagged.includes(tag))) {
            tagged = now;
            return undefined;
          }
          begin();
          for (const tag of now) {
            await this.#untag(repository, tag, options);
          }
          return await this.#dropRecord(repository, reference, record, options);
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
    const named = async () => {
      const digests = await Promise.all(
        tags.map((tag) => this.#digestOfTag(repository, tag, {})),
      );
      return tags.filter((_, index) => digests[index] === digest);
    };
    if (!await this.record(repository, digest) && (await named()).length === 0) return;
    await this.guard.withdraw(keys, (begin) =>
      this.#change(repository, async () => {
        const record = await this.record(repository, digest);
        if (record && await this.#isWhole(repository, digest, { manifest, record })) return;
        begin();
        for (const tag of await named()) await this.#untag(repository, tag, {});
        if (record) await this.#dropRecord(repository, digest, record, {});
      }));
  }

  async #isWhole(
    repository: string,
    digest: Digest,
    { manifest, record }: { manifest: ParsedManifest; record: ManifestRecord },
  ): Promise<boolean> {
    if (!await this.places.stat(digest)) return false;
    if (record.sparse) return true;
    try {
      return await checkReferences(manifest, this.#lookups(repository, {}));
    } catch (error) {
      if ((error as SvcError).code === "manifest_blob_unknown") return false;
      throw error;
    }
  }

  #lookups(repository: string, call: CallOptions): ReferenceOptions {
    const { objects, places } = this;
    return {
      blob: (digest) => places.stat(digest, call),
      manifest: (digest) => objects.stat(manifestKey(repository, digest), call),
      sound: (digest) => places.sound(digest, call),
    };
  }

  #untag(repository: string, tag: string, options: CallOptions): Promise<boolean> {
    const key = tagKey(repository, tag);
    return this.#names.writeTag(repository, tag, false, () => this.objects.delete(key, options))
      .finally(() => this.#tags?.forget(key));
  }

  async #tagsOf(repository: string, digest: Digest, options: CallOptions): Promise<string[]> {
    const found: string[] = [];
    for await (const tag of this.tags(repository, options)) {
      if (await this.#digestOfTag(repository, tag, options) === digest) found.push(tag);
    }
    return found;
  }

  /** The last steps of a removal: no tag names the record any more. */
  async #dropRecord(
    repository: string,
    digest: Digest,
    record: ManifestRecord,
    options: CallOptions,
  ): Promise<boolean> {
    const key = manifestKey(repository, digest);
    if (record.subject) {
      await this.objects.delete(referrerKey(repository, record.subject, digest), options);
    }
    const there = await this.objects.delete(key, options);
    this.#manifests?.forget(key);
    return there;
  }

  /** For collections: removes a manifest without tags. No other work may use its key meanwhile. */
  async drop(repository: string, digest: Digest, options: CallOptions = {}): Promise<boolean> {
    return await this.#change(repository, async () => {
      const record = await this.record(repository, digest, options);
      return record !== undefined && await this.#dropRecord(repository, digest, record, options);
    });
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
