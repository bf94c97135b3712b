/**
 * Who may remove what, while others push.
 *
 * Two roles meet. A *holder* relies on a key staying: a push that was told a blob exists (a lease), a
 * manifest PUT for as long as it takes (an intent). A *remover* takes keys away: a collection, or a
 * client's DELETE. The rule of both is that of Dekker's mutual exclusion: each first says what it is
 * about to do, then looks for what the other says. Whichever looks second sees the first.
 *
 * **One process on a store of its own** (`exclusive`, local_guard.ts). Both say it in memory. Publishing
 * runs shared and removing runs exclusive under one `Gate`, so that no blob goes between the check of a
 * manifest and its record. What a collection's mark did not read because it was published meanwhile, it
 * is told of: by then publications of before have ended. A lease is taken without waiting; who finds its
 * key *dying* waits for the removal's end and then looks again.
 *
 * **Many processes on one bucket** (shared_guard.ts). Both say it in the store, which must show a write to
 * every later read and listing, as S3 and its likes do; nothing else is asked of it:
 *
 *     claims/<process>-<n>   keys that a holder relies on. Written before it looks at anything.
 *     condemned/<run>-<n>    keys that a remover is about to delete. Written before it looks.
 *
 *     holder                                remover
 *     h1 write the claim                    r1 list what there is: choose the keys
 *     h2 read condemned/                    r2 write the condemnation of just these keys
 *     h3 a key is condemned: wait until     r3 read claims/: what is claimed is spared
 *        the condemnation is gone, or       r4 read the manifests written since the mark:
 *        make a copy under a new key           what they refer to is spared
 *     h4 check that the blobs exist         r5 delete the rest
 *     h5 write the manifest's record        r6 delete the condemnation
 *     h6 check that the claim is still
 *        there; then tag, and acknowledge
 *     h7 drop the claim
 *
 * *An acknowledged push is complete.* Take a manifest whose blob b was deleted by a remover after h5, and
 * the first such deletion. If r2 came before h2, the holder saw the condemnation: either it waited for r6,
 * after which this remover deletes nothing more, and h4 comes after; or it made a copy under a key which
 * did not exist at r1, so that this remover never deletes it. If r2 came after h2, then r3 came after h1:
 * the remover saw the claim and spared b, or the claim had been dropped (h7), but then h5 came before r4,
 * and r4 saw the record. A claim that somebody else removed is noticed at h6, and the push is not
 * acknowledged. A holder that dies leaves a claim, which keeps garbage until the claim is old; a remover
 * that dies leaves a condemnation, which costs the next push of its blobs one copy.
 *
 * A copy goes again once the blob's first key is there and nobody's condemnation names it: whoever may
 * condemn that key later looks at the manifests later, too.
 *
 * Records and tags are keys like blobs, except that a copy is no help: a condemned record that a dead
 * remover left makes a PUT of that very manifest answer `unavailable`.
 *
 * Clocks: which claim is old is judged by the times that the store itself wrote down, never by comparing
 * machines' clocks, and matters to an acknowledged push no more, by h6. A condemnation is taken away by
 * others after {@linkcode RETIRE_MS} by the store's clock; its writer has by then stopped deleting for
 * long by its own ({@linkcode FENCE_MS}, counted from r2), and a service refuses requests which were
 * signed a quarter of an hour ago.
 */
import type { Digest } from "../../oci/types.ts";
import type { CallOptions } from "../object_store.ts";

/** A push that does nothing for so long is taken as given up. */
export const IDLE_MS = 3_600_000;
/** A remover deletes nothing more than so long after it wrote its condemnation. */
export const FENCE_MS = 5 * 60_000;
/** Claims and condemnations of dead processes go after this. */
export const RETIRE_MS = 24 * 3_600_000;

export interface PublishStep {
  /** To be called after the record is written and before anything names it. Throws `unavailable`. */
  confirm(): Promise<void>;
  /** To be called after the bytes of a blob were written: makes sure that they stay. */
  secure(digest: Digest): Promise<void>;
}

export interface SweepOptions extends CallOptions {
  /** Leases that rested for longer are void. */
  idleMs: number;
  /** Those of the condemned keys that nothing refers to, looked at again. */
  recheck: (keys: string[]) => Promise<string[]>;
  /** Removes them all; those that are not there any more count as removed. */
  remove: (keys: string[]) => Promise<void>;
}

export interface SweepResult {
  removed: number;
  /** Spared because a push counts on them. */
  leased: number;
}

export interface Guard {
  /** True where other processes write the store. */
  readonly shared: boolean;
  /**
   * A client is about to be told that `key` exists. Resolves once it is safe to tell; true where the key
   * has to be looked for (again) first.
   */
  lease(repository: string, key: string, options?: CallOptions): Promise<boolean>;
  /** The client was not told, or its push has ended. */
  release(repository: string, keys: string[]): void;
  /** A push sends bytes to the repository until this is disposed of: its leases do not age. */
  busy(repository: string): Disposable;
  /** Runs a manifest's publication, which relies on `keys`. */
  publish<T>(
    keys: string[],
    work: (step: PublishStep) => Promise<T>,
    options?: CallOptions,
  ): Promise<T>;
  /** After a leased blob's bytes were written: see {@linkcode PublishStep.secure}. */
  secure(digest: Digest, options?: CallOptions): Promise<void>;
  /**
   * A removal that a client asked for: it waits for publications that rely on the keys, and ends leases.
   * Throws `conflict` where publications do not end. `work` calls `begin` before it deletes anything.
   */
  withdraw<T>(
    keys: string[],
    work: (begin: () => void) => Promise<T>,
    options?: CallOptions,
  ): Promise<T>;
  /** Removes those of a batch of keys that nobody holds. */
  sweep(keys: string[], options: SweepOptions): Promise<SweepResult>;
  /** True where a remover may be about to delete the key. */
  condemned(key: string, options?: CallOptions): Promise<boolean>;
  /**
   * Of an exclusive store: `seen` is told of the keys of each publication, until this is called again.
   * Resolves once all those have ended that it was not told of: they are in the manifests by then.
   */
  watch(seen: ((keys: string[]) => void) | undefined): Promise<void>;
  /** Leases of before this process may have been lost: blobs written in this time count as leased. */
  unsureTime(idleMs: number): { from: Date; to: Date } | undefined;
  close(): Promise<void>;
}
