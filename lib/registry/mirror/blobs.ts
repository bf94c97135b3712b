/** Blobs through a mirror: from the store, from a running fetch, or from a new one. */
import { waitFor } from "../../base/wait_for.ts";
import { parseDigest } from "../../oci/digest.ts";
import type { BlobBody, ByteRange } from "../../oci/image.ts";
import type { Digest } from "../../oci/types.ts";
import type { ReaderOptions } from "../view.ts";
import { BlobFlight } from "./blob_flight.ts";
import { Flights } from "./flights.ts";
import { type MirrorContext, probeSignal, PUSH_MS } from "./options.ts";
import { Recent } from "./recent.ts";
import { Spool } from "./spool.ts";
import { isDown, isRefusal, type Origin } from "./upstreams.ts";

/** A range that begins this far ahead of a running fetch gets a request of its own. */
const AHEAD = 8 * 1024 * 1024;

type Info = { size: number };

const keyOf = ({ way }: Origin, digest: Digest): string => `${digest} ${way}`;

export class MirrorBlobs {
  #context: MirrorContext;
  #stats = new Flights<Info | undefined>();
  /** By repository and digest; an entry without `info` means that the upstream does not have the blob. */
  #known: Recent<{ info?: Info }>;
  /** Running fetches by digest, since all repositories share blobs, and by the way of mirrors that a request came. */
  #landing = new Map<string, Promise<BlobFlight | undefined>>();

  constructor(context: MirrorContext) {
    this.#context = context;
    this.#known = new Recent(context.now);
  }

  async stat(
    repository: string,
    digest: Digest,
    { signal, probe, via }: ReaderOptions = {},
  ): Promise<Info | undefined> {
    const { store, upstreams, pushing } = this.#context;
    // Only a client that pushes asks with HEAD first; one that pulls gets the blob.
    if (probe) pushing.set(repository, true, PUSH_MS);
    const local = await store.stat(repository, digest, { signal, probe });
    const origin = local ? undefined : upstreams.find(repository, via);
    if (!origin) return local;
    const flight = await this.#landing.get(keyOf(origin, digest))?.catch(() => undefined);
    if (flight) return { size: flight.size };
    try {
      return await this.#ask(repository, origin, digest, probeSignal(this.#context, signal, probe));
    } catch (error) {
      if (probe && isDown(error)) return undefined;
      throw error;
    }
  }

  #ask(
    repository: string,
    origin: Origin,
    digest: Digest,
    signal?: AbortSignal,
  ): Promise<Info | undefined> {
    const key = `${repository}@${digest}`;
    const known = this.#known.get(key);
    if (known) return Promise.resolve(known.info);
    const { life, pauseMs } = this.#context;
    return this.#stats.run(`${key} ${origin.way}`, async () => {
      const info = await this.#unlessRefused(
        origin,
        () => origin.ask((source, name) => source.stat(name, digest, { signal: life }), life),
      );
      this.#known.set(key, { info }, pauseMs);
      return info;
    }, signal);
  }

  async #unlessRefused<T>(origin: Origin, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#context.log.warn("an upstream refuses a repository", {
        host: origin.host,
        repository: origin.repository,
        error,
      });
      return undefined;
    }
  }

  async get(
    repository: string,
    digest: Digest,
    { signal, range, via }: ReaderOptions & { range?: ByteRange } = {},
  ): Promise<BlobBody | undefined> {
    const { store, upstreams, cache } = this.#context;
    const local = await store.get(repository, digest, { signal, range });
    const origin = local ? undefined : upstreams.find(repository, via);
    if (!origin) return local;
    const straight = () =>
      this.#unlessRefused(
        origin,
        () => origin.ask((source, name) => source.get(name, digest, { signal, range }), signal),
      );
    if (!cache) return await straight();
    const flight = await this.#join(repository, origin, digest, signal);
    if (flight === "local") return await store.get(repository, digest, { signal, range });
    if (!flight) return undefined;
    return range && range.start > flight.position + AHEAD ? await straight() : flight.body(range);
  }

  /** Copies a blob into the store; false where the upstream does not have it or the store could not keep it. */
  async fetch(repository: string, digest: Digest, signal?: AbortSignal): Promise<boolean> {
    const origin = this.#context.upstreams.find(repository);
    if (!origin) return false;
    const flight = await this.#join(repository, origin, digest, signal);
    if (flight === "local") return true;
    return flight !== undefined && await waitFor(flight.landed, signal);
  }

  async #join(
    repository: string,
    origin: Origin,
    digest: Digest,
    signal?: AbortSignal,
  ): Promise<BlobFlight | "local" | undefined> {
    parseDigest(digest);
    const key = keyOf(origin, digest);
    if (!this.#landing.has(key)) {
      // A fetch may have ended since the store was asked.
      if (await this.#context.store.stat(repository, digest, { signal })) return "local";
    }
    let landing = this.#landing.get(key);
    if (!landing) {
      landing = this.#start(repository, origin, digest);
      this.#landing.set(key, landing);
      const over = () => this.#landing.delete(key);
      landing.then((flight) => flight ? flight.landed.then(over) : over(), over);
    }
    return await waitFor(landing, signal);
  }

  async #start(
    repository: string,
    origin: Origin,
    digest: Digest,
  ): Promise<BlobFlight | undefined> {
    const { store, life, spool: folder, log, pauseMs } = this.#context;
    const key = `${repository}@${digest}`;
    const known = this.#known.get(key);
    if (known && !known.info) return undefined;
    const body = await this.#unlessRefused(
      origin,
      () => origin.ask((source, name) => source.get(name, digest, { signal: life }), life),
    );
    this.#known.set(key, { info: body && { size: body.size } }, pauseMs);
    if (!body) return undefined;
    const { size } = body;
    const spool = await Spool.create(folder);
    return new BlobFlight({
      digest,
      size,
      spool,
      source: body.stream(),
      store: (bytes) => store.putBlob(repository, { digest, size }, bytes, { signal: life }),
      rest: async (range) =>
        await store.get(repository, digest, { range }) ??
          await origin.ask((source, name) => source.get(name, digest, { range, signal: life })),
      log: log.with({ repository, host: origin.host }),
    });
  }

  /** Resolves when no fetch is under way. */
  async idle(): Promise<void> {
    await this.#stats.idle();
    const landing = await Promise.allSettled(this.#landing.values());
    await Promise.all(landing.map((one) => one.status === "fulfilled" && one.value?.landed));
  }
}
