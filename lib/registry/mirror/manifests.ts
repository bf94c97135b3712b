/**
 * Manifests through a mirror. A digest's manifest never changes. A tag that was pushed here is served from the
 * store; any other tag is looked up upstream again when it is no longer fresh.
 */
import { KeyedMutex } from "../../base/mutex.ts";
import { isDigest } from "../../oci/digest.ts";
import type { ResolvedManifest } from "../../oci/image.ts";
import { isTag } from "../../oci/reference.ts";
import type { Digest } from "../../oci/types.ts";
import type { ContentStore } from "../../store/content_store.ts";
import { publishComplete } from "../complete.ts";
import type { ReaderOptions } from "../view.ts";
import type { MirrorBlobs } from "./blobs.ts";
import { Flights } from "./flights.ts";
import { type MirrorContext, probeSignal } from "./options.ts";
import { Recent } from "./recent.ts";
import { TagRecords } from "./tag_records.ts";
import { isDown, isRefusal, type Origin } from "./upstreams.ts";

/** What was learned about a tag a moment ago: pushed here, or the mirror's with the digest that the upstream gave. */
type Seen = "own" | { digest: Digest; stale: boolean };

type Publish = ContentStore["publish"];

export class MirrorManifests {
  #context: MirrorContext;
  #blobs: MirrorBlobs;
  #records: TagRecords;
  #flights = new Flights<ResolvedManifest | undefined>();
  #seen: Recent<Seen>;
  #missing: Recent<true>;
  /** By repository: a push and a fetch from upstream must not set tags at the same time. */
  #locks = new KeyedMutex();

  constructor(context: MirrorContext, blobs: MirrorBlobs) {
    this.#context = context;
    this.#seen = new Recent(context.now);
    this.#missing = new Recent(context.now);
    this.#blobs = blobs;
    this.#records = new TagRecords(context.objects);
  }

  async resolve(
    repository: string,
    reference: string,
    { signal, probe, via, fresh }: ReaderOptions = {},
  ): Promise<ResolvedManifest | undefined> {
    const { store, upstreams, log, pauseMs } = this.#context;
    const local = await store.resolve(repository, reference, { signal, probe });
    const origin = upstreams.find(repository, via);
    const byTag = isTag(reference);
    if (!origin || !byTag && !isDigest(reference)) return local;
    const key = `${repository}:${reference}`;
    if (fresh) {
      this.#seen.delete(key);
      this.#missing.delete(key);
    }
    if (local) {
      const settled = byTag ? await this.#settled(repository, reference, local) : local;
      if (settled) return settled;
    } else if (this.#missing.get(key)) return undefined;
    const pushing = probe && this.#context.pushing.get(repository);
    try {
      return await this.#flights.run(`${key} ${origin.way}`, async () => {
        const found = byTag
          ? await this.#tag(origin, repository, reference)
          : await this.#digest(origin, repository, reference);
        if (!found) this.#missing.set(key, true, pauseMs);
        return found;
      }, probeSignal(this.#context, signal, pushing));
    } catch (error) {
      if (pushing && isDown(error)) return undefined;
      if (!isRefusal(error)) throw error;
      // Many registries answer 401 or 403 for a repository that does not exist.
      log.warn("an upstream refuses a repository", { host: origin.host, repository, error });
      this.#missing.set(key, true, pauseMs);
      return undefined;
    }
  }

  /** The answer for a tag in the store, where the upstream need not be asked. Undefined: it has to be. */
  async #settled(
    repository: string,
    tag: string,
    local: ResolvedManifest,
  ): Promise<ResolvedManifest | undefined> {
    const key = `${repository}:${tag}`;
    const seen = this.#seen.get(key);
    if (seen === "own") return local;
    if (seen) {
      if (seen.digest === local.descriptor.digest) {
        return seen.stale ? { ...local, stale: true } : local;
      }
      return undefined;
    }
    const digests = await this.#records.digests(repository, tag);
    if (digests.includes(local.descriptor.digest)) return undefined;
    this.#seen.set(key, "own", this.#context.freshMs);
    return local;
  }

  async #digest(origin: Origin, repository: string, digest: Digest) {
    const { life } = this.#context;
    const found = await origin.ask(
      (source, name) => source.resolve(name, digest, { signal: life }),
      life,
    );
    return found && await this.#keep(repository, undefined, found);
  }

  async #tag(
    origin: Origin,
    repository: string,
    tag: string,
  ): Promise<ResolvedManifest | undefined> {
    const { store, life, log, freshMs, pauseMs, revalidateMs } = this.#context;
    const key = `${repository}:${tag}`;
    const local = await store.resolve(repository, tag);
    const ask = (signal: AbortSignal) =>
      origin.ask((source, name) => source.resolve(name, tag, { signal }), signal);
    if (!local) {
      const found = await ask(life);
      return found && await this.#keep(repository, tag, found);
    }
    const { digest } = local.descriptor;
    const signal = AbortSignal.any([life, AbortSignal.timeout(revalidateMs)]);
    let found: ResolvedManifest | undefined;
    try {
      const head = await origin.ask((source, name) => source.head(name, tag, { signal }), signal);
      found = head?.digest === digest ? local : head && await ask(signal);
    } catch (error) {
      if (life.aborted) throw error;
      log.warn("a tag is served as it was: its upstream does not answer", {
        repository,
        tag,
        host: origin.host,
        error,
      });
      this.#seen.set(key, { digest, stale: true }, pauseMs);
      return { ...local, stale: true };
    }
    if (!found) return await this.#drop(repository, tag);
    if (found.descriptor.digest !== digest) return await this.#keep(repository, tag, found);
    this.#seen.set(key, { digest, stale: false }, freshMs);
    return local;
  }

  /** Stores a manifest of the upstream; gives the manifest that the repository has from now on. */
  async #keep(
    repository: string,
    tag: string | undefined,
    found: ResolvedManifest,
  ): Promise<ResolvedManifest> {
    const { store, cache, log, freshMs } = this.#context;
    const { descriptor: { digest, mediaType }, bytes } = found;
    return await this.#locks.run(repository, async () => {
      const current = tag === undefined ? undefined : await store.resolve(repository, tag);
      if (tag !== undefined && current) {
        const ours = await this.#records.digests(repository, tag);
        // The tag was pushed here while the upstream was asked.
        if (!ours.includes(current.descriptor.digest)) return current;
      }
      if (!cache) return found;
      try {
        if (tag !== undefined) {
          const before = current ? [current.descriptor.digest] : [];
          await this.#records.set(repository, tag, [digest, ...before]);
        }
        await this.#publishSparse(repository, mediaType, bytes, digest, tag);
        if (tag !== undefined) {
          this.#seen.set(`${repository}:${tag}`, { digest, stale: false }, freshMs);
        }
      } catch (error) {
        // The disk is full, or this registry does not store manifests of this kind: the manifest is served all
        // the same.
        log.warn("a mirrored manifest could not be stored", { repository, digest, error });
      }
      return found;
    });
  }

  async #publishSparse(
    repository: string,
    mediaType: string,
    bytes: Uint8Array,
    digest: Digest,
    tag: string | undefined,
  ): Promise<void> {
    const tags = tag === undefined ? [] : [tag];
    await this.#context.store.publish(repository, mediaType, bytes, { digest, tags, sparse: true });
  }

  /** The upstream no longer has the tag: removes it here, unless it was pushed here meanwhile. */
  async #drop(repository: string, tag: string): Promise<ResolvedManifest | undefined> {
    const { store, cache } = this.#context;
    return await this.#locks.run(repository, async () => {
      const current = await store.resolve(repository, tag);
      if (!current) return undefined;
      const ours = await this.#records.digests(repository, tag);
      if (!ours.includes(current.descriptor.digest)) return current;
      if (!cache) return undefined;
      await store.deleteManifest(repository, tag);
      await this.#forget(repository, tag);
      return undefined;
    });
  }

  async #forget(repository: string, tag: string): Promise<void> {
    await this.#records.delete(repository, tag);
    this.#seen.delete(`${repository}:${tag}`);
  }

  /**
   * A push: its tags now belong to this registry. Clients leave out blobs that a HEAD reported as present;
   * blobs that only the upstream has are fetched before the manifest is accepted.
   */
  async publish(...[repository, mediaType, bytes, options = {}]: Parameters<Publish>) {
    const { store, upstreams } = this.#context;
    const call = () => store.publish(repository, mediaType, bytes, options);
    if (!upstreams.find(repository)) return await call();
    return await publishComplete(
      () =>
        this.#locks.run(repository, async () => {
          const published = await call();
          for (const tag of options.tags ?? []) await this.#forget(repository, tag);
          return published;
        }),
      (digest) => this.complete(repository, digest, options.signal),
    );
  }

  /** Copies here a blob or manifest that a push refers to; false where the upstream cannot give it. */
  async complete(repository: string, digest: Digest, signal?: AbortSignal): Promise<boolean> {
    const { upstreams, life, log } = this.#context;
    const origin = upstreams.find(repository);
    if (!origin) return false;
    try {
      const found = await origin.ask(
        (source, name) => source.resolve(name, digest, { signal: life }),
        life,
      );
      if (!found) return await this.#blobs.fetch(repository, digest, signal);
      const { descriptor: { mediaType }, bytes } = found;
      await this.#publishSparse(repository, mediaType, bytes, digest, undefined);
      return true;
    } catch (error) {
      log.warn("missing content could not be fetched", { repository, digest, error });
      return false;
    }
  }

  /** Deletes a tag, or by digest a manifest with its tags. The upstream's come back at the next request for them. */
  async delete(...[repository, reference, options]: Parameters<ContentStore["deleteManifest"]>) {
    return await this.#locks.run(repository, async () => {
      const there = await this.#context.store.deleteManifest(repository, reference, options);
      if (there && isTag(reference)) await this.#forget(repository, reference);
      return there;
    });
  }

  /** Resolves when no request to an upstream is under way. */
  idle(): Promise<void> {
    return this.#flights.idle();
  }
}
