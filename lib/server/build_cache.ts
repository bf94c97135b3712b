/** The builder's cache as the storage routes and the GC schedule use it. */
import type { BuildCacheUsage, GcResult } from "../api/storage.ts";
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Builder } from "../build/builder.ts";
import type { DeployCaps } from "../deploy/caps.ts";

export interface BuildCacheDeps {
  /** The builder; undefined where this server has never built. */
  builder: () => Promise<Builder | undefined>;
  /** The deploy backend's own images; undefined where it keeps none. */
  images?: () => Promise<DeployCaps["pruneImages"]>;
  log: Logger;
}

interface Call {
  signal?: AbortSignal;
}

export interface BuildCacheUpkeep {
  /** Undefined where there is no build cache, or the builder cannot be opened. */
  usage(call?: Call): Promise<BuildCacheUsage | undefined>;
  /** Runs `collect`, then prunes the build cache and the backend's images; the result counts all. */
  after<O extends Call & { dryRun?: boolean }>(
    collect: (options?: O) => Promise<GcResult>,
  ): (options?: O) => Promise<GcResult>;
}

export function createBuildCacheUpkeep({ builder, images, log }: BuildCacheDeps): BuildCacheUpkeep {
  /** A server that cannot build still collects its registry's garbage. */
  const cache = async () => {
    try {
      return (await builder())?.cache;
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      log.warn("the build cache is skipped: the builder cannot be opened", { error });
      return undefined;
    }
  };
  /** An engine that is away is collected from the next time. */
  const unpacked = async (options: Call & { dryRun?: boolean }) => {
    try {
      return await (await images?.())?.(options);
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      log.warn("unpacked images are skipped: the engine cannot be asked", { error });
      return undefined;
    }
  };
  return {
    usage: async ({ signal } = {}) => await (await cache())?.usage(signal),
    after: (collect) => async (options) => {
      const began = performance.now();
      const result = await collect(options);
      const { dryRun, signal } = options ?? {};
      const pruned = await (await cache())?.prune({ dryRun, signal });
      return {
        ...result,
        buildCacheBytesReclaimed: pruned?.bytes ?? 0,
        ...(images && { unpackedBytesReclaimed: (await unpacked({ dryRun, signal }))?.bytes }),
        durationMs: Math.round(performance.now() - began),
      };
    },
  };
}
