/**
 * Tags and referrers of a store and its upstream, merged. While the upstream is unreachable, a repository that
 * is in the store is listed from the store alone; for any other repository the listing fails.
 */
import { isDigest } from "../../oci/digest.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import { merged } from "../merged.ts";
import type { ReaderOptions } from "../view.ts";
import type { MirrorContext } from "./options.ts";
import { Recent } from "./recent.ts";
import { isDown, type Origin } from "./upstreams.ts";

/** Bytes of descriptors that one listing of an upstream's referrers may hold in memory. */
const REFERRERS_BYTES = 32 * 1024 * 1024;

const itself = (name: string): string => name;

export class MirrorListings {
  #context: MirrorContext;
  /** Repositories that the upstream is known to have. */
  #there: Recent<boolean>;

  constructor(context: MirrorContext) {
    this.#context = context;
    this.#there = new Recent(context.now);
  }

  /**
   * The upstream's listing. Where the upstream is down: ends early for a repository in the store, throws for
   * any other.
   */
  async *#upstream<T>(
    local: string,
    origin: Origin,
    list: Parameters<typeof origin.ask<AsyncIterable<T>>>[0],
  ): AsyncGenerator<T> {
    const { log, store } = this.#context;
    try {
      // Only the first page counts for the upstream's health.
      const { first, iterator } = await origin.ask(async (source, name) => {
        const iterator = (await list(source, name))[Symbol.asyncIterator]();
        return { first: await iterator.next(), iterator };
      });
      for (let next = first; !next.done; next = await iterator.next()) yield next.value;
    } catch (error) {
      if (isDown(error) && !await store.hasRepository(local)) throw error;
      const { host, repository } = origin;
      log.warn("a listing is incomplete: the upstream does not answer", {
        host,
        repository,
        error,
      });
    }
  }

  tags(
    repository: string,
    options: ReaderOptions & { after?: string } = {},
  ): AsyncIterable<string> {
    const { store, upstreams } = this.#context;
    const local = store.tags(repository, options);
    const origin = upstreams.find(repository, options.via);
    if (!origin) return local;
    const theirs = this.#upstream<string>(
      repository,
      origin,
      (source, name) => Promise.resolve(source.tags(name, options)),
    );
    return merged(local, theirs, itself);
  }

  async hasRepository(repository: string, options: ReaderOptions = {}): Promise<boolean> {
    const { store, upstreams, freshMs, pauseMs } = this.#context;
    if (await store.hasRepository(repository, options)) return true;
    const known = this.#there.get(repository);
    if (known !== undefined || !upstreams.find(repository, options.via)) return known ?? false;
    let there = false;
    for await (const _tag of this.tags(repository, options)) {
      there = true;
      break;
    }
    this.#there.set(repository, there, there ? freshMs : pauseMs);
    return there;
  }

  referrers(
    repository: string,
    digest: Digest,
    options: ReaderOptions & { after?: Digest } = {},
  ): AsyncIterable<Descriptor> {
    const { store, upstreams } = this.#context;
    const local = store.referrers(repository, digest, options);
    const origin = upstreams.find(repository, options.via);
    if (!origin) return local;
    return merged(local, this.#theirs(repository, origin, digest, options), (item) => item.digest);
  }

  /** Registries list referrers in any order: all of them are read and sorted. */
  async *#theirs(
    repository: string,
    origin: Origin,
    digest: Digest,
    options: ReaderOptions & { after?: Digest },
  ): AsyncGenerator<Descriptor> {
    const { after, ...call } = options;
    const all = new Map<Digest, Descriptor>();
    let left = REFERRERS_BYTES;
    const listing = this.#upstream<Descriptor>(
      repository,
      origin,
      (source, name) => Promise.resolve(source.referrers(name, digest, call)),
    );
    for await (const descriptor of listing) {
      if (!isDigest(descriptor.digest)) continue;
      if (after !== undefined && descriptor.digest <= after) continue;
      left -= JSON.stringify(descriptor).length;
      if (left < 0) {
        const { host } = origin;
        this.#context.log.warn("an upstream's referrers are too many to list", {
          host,
          repository: origin.repository,
          digest,
        });
        break;
      }
      all.set(descriptor.digest, descriptor);
    }
    for (const key of [...all.keys()].sort()) yield all.get(key)!;
  }
}
