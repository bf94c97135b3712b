/**
 * The background walk that re-reads every blob within a period (SVC_STORAGE_SCRUB). Damaged blobs are moved
 * aside and reported; where a mirror has them, they are fetched again. The store keeps the walk's position, so
 * that a restarted server continues there. A blob is read twice within a period only where a crash lost the
 * latest position.
 */
import type { ScrubDamage, ScrubStatus } from "../api/storage.ts";
import { isAbort } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/sleep.ts";
import type { Digest } from "../oci/types.ts";
import { isDigest } from "../oci/digest.ts";
import { BLOBS, digestOfKey, RESCUED, SCRUB } from "./keys.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import { checkBlob, type QuarantineParts } from "./quarantine.ts";

/** Share of the period in which a round is to be done. */
const AIM = 0.9;
/** Bytes per second while one blob is read, unless the period needs more: no stream stays open for long. */
const RATE = 64 * 1024 * 1024;
/** Milliseconds between two saves of the position: a crash loses no more work. */
const SAVE_MS = 30_000;
/** Milliseconds of the longest single wait, also of the pause after a failed round. */
const NAP_MS = 60_000;
/** Damaged blobs that are reported, the newest. */
const TOLD = 100;

export interface ScrubOptions {
  withinMs: number;
  log: Logger;
  /** Fetches a blob of a repository from elsewhere; false where no source has it. */
  refetch?: (repository: string, digest: Digest, signal: AbortSignal) => Promise<boolean>;
}

/** The stored state of the walk. */
interface State extends ScrubStatus {
  /** The key that was read last. */
  after: string;
}

async function load(objects: ObjectStore, call: CallOptions): Promise<State | undefined> {
  const body = await objects.get(SCRUB, call);
  if (!body) return undefined;
  try {
    return await new Response(body.stream() as BodyInit).json();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The status of the current round, or of the last one. Undefined: there was no round yet. */
export async function scrubStatus(
  objects: ObjectStore,
  call: CallOptions = {},
): Promise<ScrubStatus | undefined> {
  const state = await load(objects, call);
  if (!state) return undefined;
  const { after: _, ...status } = state;
  return status;
}

class Scrub {
  #state: State | undefined;
  #saved = -Infinity;

  constructor(
    private readonly parts: QuarantineParts,
    private readonly options: ScrubOptions,
    private readonly signal: AbortSignal,
  ) {}

  async run(): Promise<void> {
    const { log } = this.options;
    for (;;) {
      try {
        await this.#round();
      } catch (error) {
        if (this.signal.aborted && isAbort(error)) break;
        log.error("the scrub did not finish", { error });
        await sleep(NAP_MS, this.signal).catch(() => {});
      }
      if (this.signal.aborted) break;
    }
    // Saved at the end, so that the blobs read since the last save are not read again.
    if (this.#state) await this.#save(this.#state).catch(() => {});
  }

  async #round(): Promise<void> {
    const { parts: { objects }, options: { withinMs, log }, signal } = this;
    const call = { signal };
    let state = this.#state ?? await load(objects, call);
    if (state?.finished) {
      await this.#until(state, withinMs);
      state = { ...await this.#fresh(), damaged: state.damaged };
    }
    state ??= await this.#fresh();
    this.#state = state;
    state.withinMs = withinMs;
    for (const prefix of [BLOBS, RESCUED]) {
      // "rescued/" sorts after "blobs/": a position in it means that "blobs/" is done.
      if (state.after > prefix && !state.after.startsWith(prefix)) continue;
      const after = state.after.startsWith(prefix) ? state.after : undefined;
      for await (const entry of objects.list(prefix, { ...call, after, brief: true })) {
        if (!("key" in entry)) continue;
        await this.#blob(entry.key, state);
        state.after = entry.key;
        const share = Math.min(1, state.bytes / Math.max(1, state.totalBytes));
        if (performance.now() - this.#saved > SAVE_MS) await this.#save(state);
        await this.#until(state, share * withinMs * AIM);
      }
    }
    state.finished = new Date().toISOString();
    state.after = "";
    await this.#save(state);
    const { blobs, bytes } = state;
    log.info("the scrub read all blobs", { blobs, bytes, damaged: state.damaged.length });
  }

  async #fresh(): Promise<State> {
    const began = new Date().toISOString();
    const { withinMs } = this.options;
    let totalBytes = 0;
    for (const prefix of [BLOBS, RESCUED]) {
      for await (const entry of this.parts.objects.list(prefix, { signal: this.signal })) {
        if ("key" in entry) totalBytes += entry.size;
      }
    }
    return { began, withinMs, blobs: 0, bytes: 0, totalBytes, damaged: [], after: "" };
  }

  /** `ms`: since the round began. */
  async #until(state: State, ms: number): Promise<void> {
    const left = () => {
      const now = Date.now();
      // The clock was set back: nobody waits for the time that this takes away.
      if (Date.parse(state.began) > now) state.began = new Date(now).toISOString();
      return Date.parse(state.began) + ms - now;
    };
    for (let wait = left(); wait > 0; wait = left()) {
      if (wait > SAVE_MS && this.#state) await this.#save(this.#state);
      await sleep(Math.min(wait, NAP_MS), this.signal);
    }
  }

  async #blob(key: string, state: State): Promise<void> {
    const expected = digestOfKey(key);
    if (expected === undefined || !isDigest(expected)) return;
    const rate = Math.max(RATE, 2 * state.totalBytes / (this.options.withinMs / 1000));
    const start = performance.now();
    let read = 0;
    const passed = async (bytes: number) => {
      read += bytes;
      const early = read / rate * 1000 - (performance.now() - start);
      if (early > 10) await sleep(early, this.signal);
    };
    const options = { signal: this.signal, aside: true, passed };
    const found = await checkBlob(this.parts, key, expected, options);
    if (!found) return;
    state.blobs++;
    state.bytes += found.size;
    if (found.message !== undefined) {
      const { message, movedTo } = found;
      await this.#tell({ key, message, ...(movedTo && { movedTo }) }, expected, state);
    }
  }

  async #tell(
    damage: Pick<ScrubDamage, "key" | "message" | "movedTo">,
    digest: Digest,
    state: State,
  ): Promise<void> {
    const { log } = this.options;
    const refetched = await this.#refetch(digest);
    log.error("a stored blob is damaged", { ...damage, refetched });
    state.damaged.push({ ...damage, refetched, found: new Date().toISOString() });
    state.damaged.splice(0, state.damaged.length - TOLD);
    await this.#save(state);
  }

  async #refetch(digest: Digest): Promise<boolean> {
    const { refetch, log } = this.options;
    if (!refetch) return false;
    const tried = new Set<string>();
    for await (const { repository } of this.parts.manifests.usersOf(digest)) {
      if (tried.has(repository)) continue;
      tried.add(repository);
      try {
        if (await refetch(repository, digest, this.signal)) return true;
      } catch (error) {
        this.signal.throwIfAborted();
        log.warn("a damaged blob could not be fetched again", { repository, digest, error });
      }
    }
    return false;
  }

  async #save(state: State): Promise<void> {
    this.#saved = performance.now();
    await this.parts.objects.put(SCRUB, new TextEncoder().encode(JSON.stringify(state)));
  }
}

/** Begins at once, or continues where the last process stopped. Dispose of the result to end the walk. */
export function startScrub(parts: QuarantineParts, options: ScrubOptions): AsyncDisposable {
  const stop = new AbortController();
  const running = new Scrub(parts, options, stop.signal).run();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new DOMException("the server is shutting down", "AbortError"));
      await running;
    },
  };
}
