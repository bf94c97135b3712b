/** The server's periodic work: it expires uploads, collects garbage, re-reads blobs and gives memory back. */
import type { Logger } from "../base/log.ts";
import type { GC } from "../config/server/gc.ts";
import type { SettingsOf } from "../config/table.ts";
import type { ScrubOptions } from "../store/scrub.ts";
import type { Upkeep } from "../store/upkeep.ts";
import { memoryTrimmer } from "../sys/memory.ts";
import { scheduleGc } from "./gc_schedule.ts";

/** Uploads that nobody touched for this long are dropped. */
const UPLOAD_IDLE_MS = 7 * 24 * 3_600_000;
const EXPIRY_MS = 3_600_000;
export const GIVE_BACK_MS = 10_000;

export interface HousekeepingOptions {
  config: Pick<SettingsOf<[typeof GC]>, "gcInterval" | "storageScrub">;
  /** Drops uploads that nobody touched for so many milliseconds. */
  expireUploads: (idleMs: number) => Promise<unknown>;
  upkeep: Pick<Upkeep, "collect" | "scrub">;
  /** Fetches damaged blobs again. Absent: there is no source for them. */
  refetch?: ScrubOptions["refetch"];
  log: Logger;
}

/** Dispose of the result to end the work: work under way is stopped and awaited. */
export function startHousekeeping(options: HousekeepingOptions): AsyncDisposable {
  const { config: { gcInterval, storageScrub }, expireUploads, upkeep, refetch, log } = options;
  const stack = new AsyncDisposableStack();
  const expiry = setInterval(() => {
    expireUploads(UPLOAD_IDLE_MS).catch((error) =>
      log.warn("idle uploads were not removed", { error })
    );
  }, EXPIRY_MS);
  stack.defer(() => clearInterval(expiry));
  const giveBack = memoryTrimmer();
  if (giveBack) {
    const giving = setInterval(giveBack, GIVE_BACK_MS);
    stack.defer(() => clearInterval(giving));
  }
  if (gcInterval !== undefined) {
    stack.use(scheduleGc({ intervalMs: gcInterval, collect: upkeep.collect, log }));
  }
  if (storageScrub !== undefined) {
    stack.use(upkeep.scrub({ withinMs: storageScrub, log, refetch }));
  }
  return stack;
}
