/** What an operator does with a store: collect garbage, check it, count it. */
import type { GcResult, ScrubStatus, StorageUsage, VerifyEvent } from "../api/storage.ts";
import { type CollectOptions, Collector, type StoreParts } from "./gc/collect.ts";
import type { CallOptions } from "./object_store.ts";
import { type ScrubOptions, scrubStatus, startScrub } from "./scrub.ts";
import { contentUsage } from "./usage.ts";
import { type VerifyOptions, verifyStore } from "./verify.ts";

export interface Upkeep {
  /** Removes unreferenced blobs; safe while others push. Throws `conflict` while another collection runs. */
  collect(options?: CollectOptions): Promise<GcResult>;
  /** Events as they happen; the last one is the result. */
  verify(options?: VerifyOptions): AsyncIterable<Exclude<VerifyEvent, { type: "error" }>>;
  usage(options?: CallOptions): Promise<StorageUsage["content"]>;
  /** Re-reads every blob, round after round, until the result is disposed of. Only one may run. */
  scrub(options: ScrubOptions): AsyncDisposable;
  /** The status of the current round, or of the last one. Undefined: there was no round yet. */
  scrubbed(options?: CallOptions): Promise<ScrubStatus | undefined>;
}

export function createUpkeep(parts: StoreParts): Upkeep {
  const collector = new Collector(parts);
  return {
    collect: (options) => collector.collect(options),
    verify: (options) => verifyStore(parts, options),
    usage: (call) => contentUsage(parts.objects, call),
    scrub: (options) => startScrub(parts, options),
    scrubbed: (call) => scrubStatus(parts.objects, call),
  };
}
