/**
 * What running pushes count on, kept from containerd's collector until the pushed manifest names it. A lease of
 * containerd does that, which ends by itself: what an abandoned push left, or a server that was killed, goes then.
 */
import { KeyedMutex } from "../../base/mutex.ts";
import type { Digest } from "../../oci/types.ts";
import { IDLE_MS } from "../../store/gc/guard.ts";
import { LeaseTable } from "../../store/gc/lease_table.ts";
import { Leases } from "../api.ts";
import type { ContainerdClient } from "../client.ts";
import type { ContainerdContent } from "../content.ts";
import type { ContentInfo } from "../image_api.ts";
import { makeLease } from "../images.ts";
import { labelled, REGISTRY_OWNER } from "../labels.ts";
import { isCode, orMissing } from "../writing.ts";

/** A lease takes new content for so many milliseconds: afterwards there is still time to end a push. */
const FRESH_MS = 3_600_000;

export interface PushLeasesOptions {
  client: ContainerdClient;
  content: ContainerdContent;
  owner: string;
}

interface OpenLease {
  id: string;
  /** When it was made, by `performance.now()`. */
  made: number;
}

export class PushLeases {
  readonly #options: PushLeasesOptions;
  /** Which repositories' pushes count on which content. */
  readonly #table = new LeaseTable(IDLE_MS);
  /** The lease that has the content. */
  readonly #holding = new Map<Digest, string>();
  readonly #locks = new KeyedMutex();
  #lease: Promise<OpenLease> | undefined;

  constructor(options: PushLeasesOptions) {
    this.#options = options;
  }

  /** Work under the lease for what comes now. Where somebody has removed the lease, it is done again under a new one. */
  async under<T>(work: (lease: string) => Promise<T>): Promise<T> {
    const lease = await this.#current();
    try {
      return await work(lease);
    } catch (error) {
      if (!isCode(error, "not_found")) throw error;
    }
    this.#lease = undefined;
    return await work(await this.#current());
  }

  async #current(): Promise<string> {
    const lease = await this.#lease?.catch(() => undefined);
    if (lease && performance.now() - lease.made < FRESH_MS) return lease.id;
    const next = this.#make();
    this.#lease = next;
    return (await next).id;
  }

  /** Existing content, which stays until {@linkcode release}; undefined where it is missing. */
  async hold(
    repository: string,
    digest: Digest,
    signal?: AbortSignal,
  ): Promise<ContentInfo | undefined> {
    const { content } = this.#options;
    // No lease grows by what somebody only asks for.
    const info = await content.info(digest, { signal });
    if (!info) return undefined;
    const held = await this.keep(digest, signal);
    if (held) this.#table.add(repository, digest);
    return held;
  }

  /** {@linkcode hold} for the time of a publication, which releases it, and for content that is to come. */
  async keep(digest: Digest, signal?: AbortSignal): Promise<ContentInfo | undefined> {
    const { content } = this.#options;
    return await this.#locks.run(digest, () =>
      this.under(async (lease) => {
        if (this.#holding.get(digest) === lease) return await content.info(digest, { signal });
        const info = await content.hold(digest, { lease, signal });
        this.#holding.set(digest, lease);
        return info;
      }));
  }

  /** A push of the repository no longer needs the content; containerd may collect what nobody needs. */
  async release(repository: string, digests: Iterable<Digest>): Promise<void> {
    for (const digest of digests) {
      this.#table.remove(repository, digest);
      await this.#letGo(digest);
    }
  }

  /** Ends the hold on content, whatever push counts on it: that push is told when it names the content. */
  async end(digest: Digest): Promise<void> {
    const { client, owner } = this.#options;
    const filters = [labelled(REGISTRY_OWNER, owner)];
    await this.#locks.run(digest, async () => {
      const { leases } = await client.call(Leases.list, { filters }, "Cannot list leases");
      // Those of a server before this one, too.
      for (const { id } of leases) await this.#drop(id, digest);
    });
  }

  async #letGo(digest: Digest): Promise<void> {
    await this.#locks.run(digest, async () => {
      const id = this.#holding.get(digest);
      if (id !== undefined && !this.#table.has(digest)) await this.#drop(id, digest);
    });
  }

  async #drop(id: string, digest: Digest): Promise<void> {
    this.#holding.delete(digest);
    const resource = { id: digest, type: "content" as const };
    const { client } = this.#options;
    await orMissing(client.call(Leases.drop, { id, resource }, `Cannot let go of ${digest}`));
  }

  async #make(): Promise<OpenLease> {
    const { client, owner } = this.#options;
    const id = `svc-${owner}-push-${crypto.randomUUID()}`;
    await makeLease(client, id, { [REGISTRY_OWNER]: owner });
    return { id, made: performance.now() };
  }
}
