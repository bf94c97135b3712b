/**
 * Checks everything that the store holds: each blob's bytes against its digest, and that what records,
 * tags and referrer entries name is there. An index whose manifest a client deleted is a warning. Pushes, deletes and collections may go on meanwhile: what was
 * found wrong is looked at again before it is reported.
 */
import type { StorageProblem, VerifyEvent, VerifyResult } from "../api/storage.ts";
import { SvcError } from "../base/errors.ts";
import { isDigest } from "../oci/digest.ts";
import { parseManifest } from "../oci/manifest.ts";
import { type Descriptor, MEDIA } from "../oci/types.ts";
import type { BlobPlaces } from "./blob_places.ts";
import type { Guard } from "./gc/guard.ts";
import { manifestOfKey } from "./gc/mark.ts";
import {
  blobKey,
  BLOBS,
  digestOfKey,
  firstKey,
  MANIFESTS,
  REFERRERS,
  RESCUED,
  TAGS,
  unescapeName,
} from "./keys.ts";
import type { Manifests } from "./manifests.ts";
import type { ManifestRecord } from "./publication.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import { checkBlob } from "./quarantine.ts";

/** Bytes that are hashed between two reports. */
const REPORT_BYTES = 64 * 1024 * 1024;
const INDEXES: string[] = [MEDIA.index, MEDIA.dockerList];

export interface VerifyOptions extends CallOptions {
  /** Moves damaged blobs aside, so that a push can bring them again. */
  quarantine?: boolean;
}

export interface VerifyParts {
  objects: ObjectStore;
  places: BlobPlaces;
  manifests: Manifests;
  guard: Guard;
}

class Verification {
  #result: VerifyResult = {
    blobs: 0,
    bytes: 0,
    manifests: 0,
    tags: 0,
    problems: 0,
    warnings: 0,
    quarantined: 0,
    durationMs: 0,
  };
  #reported = 0;
  #call: CallOptions;

  constructor(private readonly parts: VerifyParts, private readonly options: VerifyOptions) {
    this.#call = { signal: options.signal };
  }

  async *run(): AsyncGenerator<Exclude<VerifyEvent, { type: "error" }>> {
    const began = performance.now();
    for (const prefix of [BLOBS, RESCUED]) {
      for await (const key of this.#keys(prefix)) {
        const wrong = await this.#blob(key);
        if (wrong) yield this.#problem({ kind: "blob", key, ...wrong });
        const { blobs, bytes } = this.#result;
        if (bytes - this.#reported < REPORT_BYTES && blobs % 1000 !== 0) continue;
        this.#reported = bytes;
        yield { type: "progress", blobs, bytes };
      }
    }
    for (const [prefix, kind, check] of this.#records) {
      let last: string | undefined;
      for await (const place of this.#keys(prefix)) {
        const key = firstKey(place);
        if (key === last) continue;
        last = key;
        const message = await check(key);
        if (message) yield this.#problem({ kind, key, message });
        else if (kind === "manifest") {
          const message = await this.#dangling(key);
          if (message) yield this.#warning({ kind, key, message });
        }
      }
    }
    this.#result.durationMs = Math.round(performance.now() - began);
    yield { type: "result", result: this.#result };
  }

  get #records(): [string, StorageProblem["kind"], (key: string) => Promise<string | undefined>][] {
    return [
      [MANIFESTS, "manifest", (key) => this.#manifest(key)],
      [TAGS, "tag", (key) => this.#tag(key)],
      [REFERRERS, "referrer", (key) => this.#referrer(key)],
    ];
  }

  #problem(problem: StorageProblem): { type: "problem" } & StorageProblem {
    this.#result.problems++;
    if (problem.movedTo !== undefined) this.#result.quarantined++;
    return { type: "problem", ...problem };
  }

  #warning(problem: StorageProblem): { type: "warning" } & StorageProblem {
    this.#result.warnings++;
    return { type: "warning", ...problem };
  }

  async *#keys(prefix: string): AsyncGenerator<string> {
    for await (const entry of this.parts.objects.list(prefix, { ...this.#call, brief: true })) {
      if ("key" in entry) yield entry.key;
    }
  }

  async #blob(key: string): Promise<{ message: string; movedTo?: string } | undefined> {
    const expected = digestOfKey(key);
    if (expected === undefined || !isDigest(expected)) {
      return { message: "its key is not a digest's" };
    }
    const aside = this.options.quarantine ?? false;
    const read = await checkBlob(this.parts, key, expected, { ...this.#call, aside });
    if (!read) return undefined;
    this.#result.blobs++;
    this.#result.bytes += read.size;
    const { message, movedTo } = read;
    return message === undefined ? undefined : { message, ...(movedTo && { movedTo }) };
  }

  async #manifest(key: string): Promise<string | undefined> {
    this.#result.manifests++;
    const { repository, digest } = manifestOfKey(key);
    const look = async () => {
      const record = await this.parts.manifests.record(repository, digest, this.#call);
      return record && await this.#missing(repository, digest, record);
    };
    return await look() && await look();
  }

  async #missing(
    repository: string,
    digest: string,
    record: ManifestRecord,
  ): Promise<string | undefined> {
    const { places, objects, manifests } = this.parts;
    if (!await places.stat(digest, this.#call)) return `its bytes, blob ${digest}, are missing`;
    if (record.sparse) return undefined;
    for (const reference of record.references) {
      if (await objects.stat(blobKey(reference), this.#call)) continue;
      if (await places.stat(reference, this.#call)) continue;
      if (await manifests.has(repository, reference, this.#call)) continue;
      return `it refers to ${reference}, which is missing`;
    }
    return undefined;
  }

  /**
   * Clients may delete a manifest that an index names: the bytes stay, and requests for the manifest are
   * answered 404.
   */
  async #dangling(key: string): Promise<string | undefined> {
    const { manifests } = this.parts;
    const { repository, digest } = manifestOfKey(key);
    const look = async () => {
      const record = await manifests.record(repository, digest, this.#call);
      if (!record || record.sparse || !INDEXES.includes(record.mediaType)) return undefined;
      for (const named of await this.#namedBy(repository, digest, record)) {
        const there = await manifests.has(repository, named.digest, this.#call);
        if (!there) return `it names manifest ${named.digest}, which was deleted`;
      }
      return undefined;
    };
    return await look() && await look();
  }

  async #namedBy(
    repository: string,
    digest: string,
    { mediaType }: ManifestRecord,
  ): Promise<Descriptor[]> {
    try {
      const index = await this.parts.manifests.resolve(repository, digest, this.#call);
      return index ? parseManifest(index.bytes, mediaType).manifests : [];
    } catch (error) {
      this.options.signal?.throwIfAborted();
      // The bytes are damaged: already reported as the blob's problem.
      if (error instanceof SvcError) return [];
      throw error;
    }
  }

  async #tag(key: string): Promise<string | undefined> {
    this.#result.tags++;
    const [, name, tag] = key.split("/");
    const repository = unescapeName(name);
    const look = async () => {
      const digest = await this.parts.manifests.tagged(repository, tag, this.#call);
      if (digest === undefined || !isDigest(digest)) {
        return digest === undefined ? undefined : `it holds ${JSON.stringify(digest.slice(0, 80))}`;
      }
      const there = await this.parts.manifests.has(repository, digest, this.#call);
      return there ? undefined : `it names manifest ${digest}, which is missing`;
    };
    return await look() && await look();
  }

  async #referrer(key: string): Promise<string | undefined> {
    const [, name, subject, digest] = key.split("/");
    const repository = unescapeName(name);
    const look = async () => {
      if (!await this.parts.manifests.places.has(key, this.#call)) return undefined;
      const record = await this.parts.manifests.record(repository, digest, this.#call);
      if (record?.subject === subject) return undefined;
      return record
        ? `manifest ${digest} has another subject`
        : `it names manifest ${digest}, which is missing`;
    };
    return await look() && await look();
  }
}

/** The last event is the result. Ending the iteration early ends the check. */
export function verifyStore(
  parts: VerifyParts,
  options: VerifyOptions = {},
): AsyncGenerator<Exclude<VerifyEvent, { type: "error" }>> {
  return new Verification(parts, options).run();
}
