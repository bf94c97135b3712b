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
 *     beats/<process>-<n>    signs of life of a claim whose publication lasts.
 *
 *     holder                                remover
 *     h1 write the claim                    r1 list what there is: choose the keys
 *     h2 read condemned/                    r2 write the condemnation of just these keys
 *     h3 a key is condemned: wait until     r3 read claims/: what is claimed is spared
 *        the condemnation is gone, or       r4 read the manifests written since the mark:
 *        make a copy under a new key           what they refer to is spared
 *     h4 check that the blobs exist         r5 delete the rest
 *     h5 write the manifest's record, and   r6 delete the condemnation
 *        a copy where h3 found it condemned
 *     h6 check that the claim is still
 *        there; tag; check it again, and
 *        acknowledge
 *     h7 drop the claim
 *
 * *An acknowledged push is complete.* Take a manifest whose blob b was deleted by a remover after h5, and
 * the first such deletion. If r2 came before h2, the holder saw the condemnation: either it waited for r6,
 * after which this remover deletes nothing more, and h4 comes after; or it made a copy under a key which
 * did not exist at r1, so that this remover never deletes it. If r2 came after h2, then r3 came after h1:
 * the remover saw the claim and spared b, or the claim had been dropped (h7), but then h5 came before r4,
 * and r4 saw the record.
 *
 * *A claim may be given up while its holder lives*, since nobody can tell a dead process from a slow one.
 * A remover that gives a claim up deletes it, and only then disregards it, so before r4. If h5 came before
 * r4, the remover sees the record. Otherwise h6 comes after the deletion, and finds that the claim is gone:
 * nothing is acknowledged; the publication begins again from h1, and fails at h4 where blobs are gone. Then
 * it takes back its record, as a remover does, unless somebody else's blobs have made it whole. The second
 * check of h6 does the same for the tag: a remover that takes an untagged record may have looked at the
 * tags before it was written. So a holder that was given up and comes back fails or is complete.
 *
 * What a lease's claim is given up for is no danger at all: a client was told that a blob exists, and learns
 * at h4 of its manifest that it does not.
 *
 * A remover that dies leaves a condemnation, which costs the next push of its keys one copy each, and refuses
 * nothing. Nobody has to tell whether it is dead: one that is slow deletes only keys that it had listed before r2,
 * and so no copy that is made after h2, however late it comes.
 *
 * A blob's copy goes again once the blob's first key is there and nobody's condemnation names it: whoever may
 * condemn that key later looks at the manifests later, too.
 *
 * Records, tags and a manifest's referrer entry are copied like blobs (record_places.ts), with what is written to
 * them, and read from the newest copy where the first key is gone. Who moves a condemned tag writes a new copy and
 * removes the older ones. Who removes a record or a tag removes its copies first.
 *
 * Clocks: no two are compared. A lease's claim is old by the times that the store itself wrote down. A
 * publication's is given up by observation: a remover that has seen the same claim stand there for
 * {@linkcode ALIVE_MS} of its own steady clock, without a sign of life: while a publication lasts, its
 * holder rewrites an object under `beats/`, often enough. So a client whose DELETE meets the claim of a
 * server that crashed waits that long, and no longer. Neither matters to an acknowledged push, as above. A
 * condemnation is taken away by a remover that has seen it stand there for {@linkcode DEAD_MS} of its
 * steady clock, or after {@linkcode RETIRE_MS} by the store's. Its writer has by then stopped deleting for
 * long by its own ({@linkcode FENCE_MS}, counted from r2); where its clock stood still with its machine, it
 * looks, before each few deletions of r5, whether its condemnation is still there; and a service refuses
 * requests which were signed a quarter of an hour ago.
 */
import type { Digest } from "../../oci/types.ts";
import type { CallOptions } from "../object_store.ts";

/** A push that does nothing for so long is taken as given up. */
export const IDLE_MS = 3_600_000;
/** A remover deletes nothing more than so long after it wrote its condemnation. */
export const FENCE_MS = 5 * 60_000;
/** A publication whose claim a remover saw stand there for so long, without a beat, is taken as given up. */
export const ALIVE_MS = 6_000;
/** A condemnation that a remover saw stand there for so long is a dead remover's. */
export const DEAD_MS = 60 * 60_000;
/** Condemnations of dead processes that nobody saw, and leases that nobody needs, go after this. */
export const RETIRE_MS = 24 * 3_600_000;

export interface PublishStep {
  /**
   * To be called after the record is written and before anything names it. What it throws ends the
   * attempt: the publication is run again, or fails as `unavailable`.
   */
  confirm(this: void): Promise<void>;
  /** To be called after the bytes of a blob were written: makes sure that they stay. */
  secure(digest: Digest): Promise<void>;
  /**
   * True where a remover that does not end may still delete this key of a record or a tag: whoever writes it, or
   * relies on it, makes a copy.
   */
  threatened(this: void, key: string): boolean;
}

export interface SweepOptions extends CallOptions {
  /** Leases that rested for longer are void, and publications that are known for longer. */
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
  /** Runs a manifest's publication, which relies on `keys`; more than once where it lost its claim. */
  publish<T>(
    keys: string[],
    work: (step: PublishStep) => Promise<T>,
    options?: CallOptions,
  ): Promise<T>;
  /** After a leased blob's bytes were written: see {@linkcode PublishStep.secure}. */
  secure(digest: Digest, options?: CallOptions): Promise<void>;
  /**
   * A removal that a client asked for: it waits for publications that rely on the keys, and ends leases.
   * Throws `unavailable` where publications do not end. `work` calls `begin` before it deletes anything.
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
