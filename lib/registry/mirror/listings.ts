/** Tags and referrers of a store and its upstream as one. An upstream that cannot be asked adds nothing. */
import type { ReadOptions } from "../../oci/image.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import type { MirrorContext } from "./options.ts";
import { Recent } from "./recent.ts";
import type { Origin } from "./upstreams.ts";

/** Two listings in byte order as one, without what both have. */
export async function* merged(
  one: AsyncIterable<string>,
  other: AsyncIterable<string>,
): AsyncGenerator<string> {
  const iterators = [one[Symbol.asyncIterator](), other[Symbol.asyncIterator]()];
  try {
    let [a, b] = await Promise.all(iterators.map((iterator) => iterator.next()));
    while (!a.done || !b.done) {
      const first = b.done || !a.done && a.value <= b.value ? a.value : b.value;
      yield first;
      if (!a.done && a.value === first) a = await iterators[0].next();
      if (!b.done && b.value === first) b = await iterators[1].next();
    }
  } finally {
    await Promise.all(iterators.map((iterator) => iterator.return?.()));
  }
}

export class MirrorListings {
  #context: MirrorContext;
  /** Repositories that the upstream was seen to have. */
  #there = new Recent<boolean>();

  constructor(context: MirrorContext) {
    this.#context = context;
  }

  /** What the upstream lists, as far as it can be asked. */
  async *#upstream<T>(
    origin: Origin,
    list: Parameters<typeof origin.ask<AsyncIterable<T>>>[0],
  ): AsyncGenerator<T> {
    const { log } = this.#context;
    try {
      // Only the first page's coming tells how the upstream fares.
      const { first, iterator } = await origin.ask(async (source, name) => {
        const iterator = (await list(source, name))[Symbol.asyncIterator]();
        return { first: await iterator.next(), iterator };
      });
      for (let next = first; !next.done; next = await iterator.next()) yield next.value;
    } catch (error) {
      const { host, repository } = origin;
      log.warn("a listing lacks what the upstream has", { host, repository, error });
    }
  }

  tags(
    repository: string,
    options: ReadOptions & { after?: string } = {},
  ): AsyncIterable<string> {
    const { store, upstreams } = this.#context;
    const local = store.tags(repository, options);
    const origin = upstreams.find(repository);
    if (!origin) return local;
    const theirs = this.#upstream<string>(
      origin,
      (source, name) => Promise.resolve(source.tags(name, options)),
    );
    return merged(local, theirs);
  }

  async hasRepository(repository: string, options: ReadOptions = {}): Promise<boolean> {
    const { store, upstreams, freshMs, pauseMs } = this.#context;
    if (await store.hasRepository(repository, options)) return true;
    const known = this.#there.get(repository);
    if (known !== undefined || !upstreams.find(repository)) return known ?? false;
    let there = false;
    for await (const _tag of this.tags(repository, options)) {
      there = true;
      break;
    }
    this.#there.set(repository, there, there ? freshMs : pauseMs);
    return there;
  }

  async *referrers(
    repository: string,
    digest: Digest,
    options: ReadOptions = {},
  ): AsyncGenerator<Descriptor> {
    const { store, upstreams } = this.#context;
    const listed = new Set<Digest>();
    for await (const descriptor of store.referrers(repository, digest, options)) {
      listed.add(descriptor.digest);
      yield descriptor;
    }
    const origin = upstreams.find(repository);
    if (!origin) return;
    const theirs = this.#upstream<Descriptor>(
      origin,
      (source, name) => Promise.resolve(source.referrers(name, digest, options)),
    );
    for await (const descriptor of theirs) {
      if (!listed.has(descriptor.digest)) yield descriptor;
    }
  }
}
