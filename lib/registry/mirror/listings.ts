/**
 * Tags and referrers of a store and its upstream as one. An upstream that cannot be asked adds nothing to a
 * repository that is here; of one that is not, nobody knows what it has.
 */
import { isDigest } from "../../oci/digest.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import type { LookOptions } from "../request.ts";
import type { MirrorContext } from "./options.ts";
import { Recent } from "./recent.ts";
import { isDown, type Origin } from "./upstreams.ts";

/** Bytes of descriptors that one listing of an upstream's referrers may hold in memory. */
const REFERRERS_BYTES = 32 * 1024 * 1024;

const itself = (name: string): string => name;

/** Two listings in byte order of their keys as one; of what both have, the first one's. */
export async function* merged<T>(
  one: AsyncIterable<T>,
  other: AsyncIterable<T>,
  keyOf: (item: T) => string,
): AsyncGenerator<T> {
  const iterators = [one[Symbol.asyncIterator](), other[Symbol.asyncIterator]()];
  try {
    let [a, b] = await Promise.all(iterators.map((iterator) => iterator.next()));
    while (!a.done || !b.done) {
      const first = b.done || !a.done && keyOf(a.value) <= keyOf(b.value) ? a.value : b.value;
      yield first;
      const key = keyOf(first);
      if (!a.done && keyOf(a.value) === key) a = await iterators[0].next();
      if (!b.done && keyOf(b.value) === key) b = await iterators[1].next();
    }
  } finally {
    await Promise.all(iterators.map((iterator) => iterator.return?.()));
  }
}

export class MirrorListings {
  #context: MirrorContext;
  /** Repositories that the upstream was seen to have. */
  #there: Recent<boolean>;

  constructor(context: MirrorContext) {
    this.#context = context;
    this.#there = new Recent(context.now);
  }

  /** What the upstream lists, as far as it can be asked. Throws where only it could tell, and is down. */
  async *#upstream<T>(
    local: string,
    origin: Origin,
    list: Parameters<typeof origin.ask<AsyncIterable<T>>>[0],
  ): AsyncGenerator<T> {
    const { log, store } = this.#context;
    try {
      // Only the first page's coming tells how the upstream fares.
      const { first, iterator } = await origin.ask(async (source, name) => {
        const iterator = (await list(source, name))[Symbol.asyncIterator]();
        return { first: await iterator.next(), iterator };
      });
      for (let next = first; !next.done; next = await iterator.next()) yield next.value;
    } catch (error) {
      if (isDown(error) && !await store.hasRepository(local)) throw error;
      const { host, repository } = origin;
      log.warn("a listing lacks what the upstream has", { host, repository, error });
    }
  }

  tags(
    repository: string,
    options: LookOptions & { after?: string } = {},
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

  async hasRepository(repository: string, options: LookOptions = {}): Promise<boolean> {
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
    options: LookOptions & { after?: Digest } = {},
  ): AsyncIterable<Descriptor> {
    const { store, upstreams } = this.#context;
    const local = store.referrers(repository, digest, options);
    const origin = upstreams.find(repository, options.via);
    if (!origin) return local;
    return merged(local, this.#theirs(repository, origin, digest, options), (item) => item.digest);
  }

  /** Registries list referrers in any order: all of them, sorted. */
  async *#theirs(
    repository: string,
    origin: Origin,
    digest: Digest,
    options: LookOptions & { after?: Digest },
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
