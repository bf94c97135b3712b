/** The guard of a store that several processes write; the protocol and its proof are in guard.ts. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/sleep.ts";
import type { Digest } from "../../oci/types.ts";
import type { BlobPlaces } from "../blob_places.ts";
import { claimedAs, CLAIMS, CONDEMNED, digestOfKey } from "../keys.ts";
import type { CallOptions, ObjectStore } from "../object_store.ts";
import { Beats } from "./beats.ts";
import {
  ALIVE_MS,
  DEAD_MS,
  FENCE_MS,
  type Guard,
  IDLE_MS,
  type PublishStep,
  RETIRE_MS,
  type SweepOptions,
  type SweepResult,
} from "./guard.ts";
import { ClaimLost, LeaseClaim } from "./lease_claim.ts";
import { type Lease, LeaseTable } from "./lease_table.ts";
import { type Note, Notes } from "./notes.ts";

/**
 * Milliseconds to wait for another process's removal before its blobs are copied. The limit costs time, not
 * safety.
 */
const PATIENCE_MS = 4_000;
/** Keys in one condemnation. Each condemnation costs a look at what was published meanwhile. */
const BATCH = 1_000;
/** Keys that are removed between two checks of the clock. */
const CHUNK = 100;
/** After this time, a deletion that got no answer has either been refused or done. */
const SURELY_OVER_MS = 30 * 60_000;

/** Attempts of a publication whose claim was given up. */
const ATTEMPTS = 3;

export interface SharedGuardOptions {
  log: Logger;
  idleMs?: number;
  patienceMs?: number;
  /** Milliseconds without a beat after which a claim counts as a dead process's. */
  aliveMs?: number;
  /** A clock that never jumps, in milliseconds. */
  now?: () => number;
}

export class SharedGuard implements Guard {
  readonly shared = true;
  #leases: LeaseTable;
  #claims: Notes;
  #condemned: Notes;
  /** The claim that gathers leases until it is written. */
  #claiming: LeaseClaim | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** Condemnations that did not end within the patience. */
  #stuck = new Set<string>();
  #background = new Set<Promise<unknown>>();
  /** Claims of publications that run in this process. */
  #intents = new Set<string>();
  #beats: Beats;
  #log: Logger;
  #patienceMs: number;
  #now: () => number;

  constructor(
    private readonly objects: ObjectStore,
    private readonly places: BlobPlaces,
    options: SharedGuardOptions,
  ) {
    this.#now = options.now ?? (() => performance.now());
    this.#leases = new LeaseTable(options.idleMs ?? IDLE_MS, this.#now);
    this.#claims = new Notes(objects, CLAIMS, this.#now);
    this.#condemned = new Notes(objects, CONDEMNED, this.#now);
    this.#log = options.log;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.#beats = new Beats(objects, options.aliveMs ?? ALIVE_MS, options.log);
  }

  async lease(repository: string, key: string, options: CallOptions = {}): Promise<boolean> {
    const lease = this.#leases.add(repository, key);
    try {
      return await this.#hold(lease, options);
    } catch (error) {
      this.#leases.remove(repository, key);
      throw error;
    }
  }

  /** Claims leases that have no claim, or a claim so old that others will soon give it up. */
  async #hold(lease: Lease, options: CallOptions): Promise<boolean> {
    const { claim } = lease;
    if (claim && this.#leases.now() - claim.taken < this.#leases.idleMs / 2) {
      await claim.held;
      return false;
    }
    const claiming = this.#claiming ??= this.#claimNext();
    claiming.add(lease, this.#leases.now());
    claim?.release();
    await claiming.done;
    options.signal?.throwIfAborted();
    return true;
  }

  /** One claim is written at a time: meanwhile new leases gather in the next one. */
  #claimNext(): LeaseClaim {
    const claim = new LeaseClaim((name) => this.#later(this.#claims.remove(name)));
    const write = async () => {
      this.#claiming = undefined;
      const { keys } = claim;
      claim.written(await this.#claims.write({ kind: "lease", keys }));
      return keys;
    };
    const written = this.#writing.then(write);
    this.#writing = written.then(() => {}, () => {});
    written.then((keys) => this.#settle(keys)).then(
      () => claim.settled(),
      (error) => claim.failed(error),
    );
    return claim;
  }

  release(repository: string, keys: string[]): void {
    for (const key of keys) this.#leases.remove(repository, key);
  }

  busy(repository: string): Disposable {
    const renewing = setInterval(() => {
      for (const lease of this.#leases.leasesOf(repository)) {
        this.#hold(lease, {}).catch((error) =>
          this.#log.warn("a lease was not renewed", { error })
        );
      }
    }, this.#leases.idleMs / 4);
    const busy = this.#leases.busy(repository);
    return {
      [Symbol.dispose]: () => {
        clearInterval(renewing);
        busy[Symbol.dispose]();
      },
    };
  }

  /**
   * h2 and h3: resolves once no remover can take the keys away unseen. Blobs that a remover condemned and does
   * not finish with are copied. Resolves to the other keys that it may still delete.
   */
  async #settle(keys: string[], call: CallOptions = {}): Promise<Set<string>> {
    const touching = (notes: Note[]) =>
      notes.filter((note) => keys.some((key) => this.#condemns(note, key)));
    const until = performance.now() + this.#patienceMs;
    let found: Note[];
    for (let wait = Math.min(20, this.#patienceMs);; wait = Math.min(wait * 1.5, 500)) {
      found = touching(await this.#condemned.all(call));
      if (found.length === 0) return new Set();
      if (performance.now() > until) { for (const note of found) this.#stuck.add(note.name); }
      if (found.every((note) => this.#stuck.has(note.name))) break;
      await sleep(wait, call.signal);
    }
    const threatened = new Set<string>();
    for (const key of keys) {
      const digest = digestOfKey(key);
      if (digest !== undefined) await this.secure(digest, call);
      else if (found.some((note) => note.keys.has(key))) threatened.add(key);
    }
    return threatened;
  }

  /** True where the remover may delete `key` itself or, for a blob, any of its places. */
  #condemns(note: Note, key: string): boolean {
    if (note.keys.has(key)) return true;
    const digest = digestOfKey(key);
    if (digest === undefined) return false;
    for (const other of note.keys) {
      if (digestOfKey(other) === digest) return true;
    }
    return false;
  }

  async secure(digest: Digest, call: CallOptions = {}): Promise<void> {
    if (this.#stuck.size === 0) return;
    const notes = await this.#condemned.all(call);
    const names = new Set(notes.map((note) => note.name));
    for (const name of this.#stuck) if (!names.has(name)) this.#stuck.delete(name);
    await this.places.rescue(
      digest,
      (place) => notes.some((note) => note.keys.has(place)),
      call,
    );
  }

  async publish<T>(
    keys: string[],
    work: (step: PublishStep) => Promise<T>,
    call: CallOptions = {},
  ): Promise<T> {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#publishOnce(keys, work, call);
      } catch (error) {
        if (!(error instanceof ClaimLost) || attempt === ATTEMPTS) throw error;
      }
    }
  }

  async #publishOnce<T>(
    keys: string[],
    work: (step: PublishStep) => Promise<T>,
    call: CallOptions,
  ): Promise<T> {
    const claim = await this.#claims.write({ kind: "intent", keys }, call);
    this.#intents.add(claim);
    const endBeats = this.#beats.begin(claim);
    const confirm = async () => {
      if (!await this.#claims.written(claim, call)) throw new ClaimLost();
    };
    try {
      const threatened = await this.#settle(keys, call);
      const result = await work({
        secure: (digest) => this.secure(digest, call),
        confirm,
        threatened: (key) => threatened.has(key),
      });
      await confirm();
      return result;
    } finally {
      this.#intents.delete(claim);
      this.#later(Promise.all([this.#claims.remove(claim), endBeats()]));
    }
  }

  /** A claim that could not be dropped looks like a dead process's to others. */
  #later(work: Promise<unknown>): Promise<void> {
    const done = work.then(
      () => {},
      (error) => this.#log.warn("a claim was not released", { error }),
    )
      .finally(() => this.#background.delete(done));
    this.#background.add(done);
    return done;
  }

  async withdraw<T>(
    keys: string[],
    work: (begin: () => void) => Promise<T>,
    call: CallOptions = {},
  ): Promise<T> {
    // Long enough to tell a dead process's claim from a living one's.
    const until = performance.now() + this.#patienceMs + 2 * this.#beats.aliveMs;
    for (let wait = Math.min(20, this.#patienceMs);; wait = Math.min(wait * 1.5, 500)) {
      const name = await this.#condemned.write({ keys }, call);
      const now = await this.#condemned.written(name, call) ?? new Date();
      const claimed = await this.#claimedKeys(
        { now, idleMs: 0, intentMs: this.#beats.aliveMs },
        call,
      ).catch(
        async (error) => {
          await this.#condemned.remove(name);
          throw error;
        },
      );
      if (!keys.some((key) => claimed.has(claimedAs(key)))) {
        const removal = { begun: false };
        try {
          const result = await work(() => removal.begun = true);
          removal.begun = false;
          return result;
        } finally {
          await this.#acquit(name, removal.begun);
        }
      }
      // Dropped before waiting: publications wait for this condemnation to go.
      await this.#condemned.remove(name);
      if (performance.now() > until) {
        throw new SvcError("unavailable", `Cannot delete ${keys[0]}: a push is using it`, {
          help: "try again when the push has ended",
        });
      }
      await sleep(wait, call.signal);
    }
  }

  /** r6. A failed deletion may still be on its way: then the condemnation stays until that is surely over. */
  async #acquit(name: string, unsure: boolean): Promise<void> {
    if (!unsure) return await this.#condemned.remove(name);
    Deno.unrefTimer(setTimeout(
      () =>
        this.#condemned.remove(name).catch((error) =>
          this.#log.warn("a condemned blob's mark could not be removed", { error })
        ),
      SURELY_OVER_MS,
    ));
  }

  /**
   * r3. A lease's claim counts for `idleMs` of the store's clock. A publication's claim counts until this
   * process has seen it for `intentMs` without a beat. Then the claim is deleted first, and disregarded only
   * after that.
   */
  async #claimedKeys(
    { now, idleMs, intentMs }: { now: Date; idleMs: number; intentMs: number },
    call: CallOptions,
  ): Promise<Set<string>> {
    const claimed = new Set<string>();
    for (const note of await this.#claims.all(call)) {
      const { name, modified, kind, keys } = note;
      const age = now.getTime() - modified.getTime();
      const intent = kind === "intent";
      const quiet = intent && !this.#intents.has(name) && this.#now() - note.seen >= intentMs;
      const lives = quiet && await this.#beats.lives(name, call);
      if (lives) note.seen = this.#now();
      if (age > RETIRE_MS || quiet && !lives) {
        await this.#claims.remove(name, call);
        await this.#beats.forget(name, call);
      } else if (intent || age < idleMs) { for (const key of keys) claimed.add(key); }
    }
    return claimed;
  }

  async sweep(keys: string[], options: SweepOptions): Promise<SweepResult> {
    const result: SweepResult = { removed: 0, leased: 0 };
    this.#leases.expire(options.idleMs);
    for (let at = 0; at < keys.length; at += BATCH) {
      await this.#sweepBatch(keys.slice(at, at + BATCH), options, result);
    }
    return result;
  }

  async #sweepBatch(keys: string[], options: SweepOptions, result: SweepResult): Promise<void> {
    const call = { signal: options.signal };
    const begun = performance.now();
    const name = await this.#condemned.write({ keys }, call);
    let unsure = false;
    try {
      const now = await this.#stillCondemned(name, call);
      await this.#retire(now, call);
      const { idleMs } = options;
      const intentMs = Math.min(idleMs, this.#beats.aliveMs);
      const claimed = await this.#claimedKeys({ now, idleMs, intentMs }, call);
      const free = keys.filter((key) => !claimed.has(claimedAs(key)));
      const doomed = await options.recheck(free);
      result.leased += keys.length - free.length;
      for (let at = 0; at < doomed.length; at += CHUNK) {
        options.signal?.throwIfAborted();
        if (performance.now() - begun > FENCE_MS) {
          throw new SvcError("timeout", "Cannot go on collecting garbage: the store is too slow");
        }
        await this.#stillCondemned(name, call);
        const chunk = doomed.slice(at, at + CHUNK);
        await options.remove(chunk).catch((error) => {
          unsure = true;
          throw error;
        });
        result.removed += chunk.length;
      }
    } finally {
      await this.#acquit(name, unsure);
    }
  }

  /** When the condemnation was written. Throws `conflict` where another process took this remover for dead. */
  async #stillCondemned(name: string, call: CallOptions): Promise<Date> {
    const written = await this.#condemned.written(name, call);
    if (written) return written;
    throw new SvcError("conflict", "Cannot collect garbage: another collection ended it");
  }

  /** Removes the condemnations of dead removers. */
  async #retire(now: Date, call: CallOptions): Promise<void> {
    for (const { name, modified, seen } of await this.#condemned.all(call)) {
      const dead = this.#now() - seen >= DEAD_MS ||
        now.getTime() - modified.getTime() > RETIRE_MS;
      if (dead) await this.#condemned.remove(name, call);
    }
  }

  /** Not needed: r4 reads the manifests again. */
  watch(): Promise<void> {
    return Promise.resolve();
  }

  async condemned(key: string, call: CallOptions = {}): Promise<boolean> {
    return (await this.#condemned.all(call)).some((note) => note.keys.has(key));
  }

  unsureTime(): undefined {
    // Claims outlive the process that wrote them.
    return undefined;
  }

  /** Claims stay: pushes may go on elsewhere, or here after a restart. */
  async close(): Promise<void> {
    await Promise.all(this.#background);
  }
}
