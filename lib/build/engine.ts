/** The build engine: {@linkcode Builder} on this machine (DESIGN.md section 9). */
import type { BuildResult } from "../api/build.ts";
import type { Entitlement } from "../api/build_entitlements.ts";
import { deadline } from "../base/deadline.ts";
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import { BuildCache } from "./cache/cache.ts";
import type { Shelf } from "./cache/shelf.ts";
import { SnapshotShelf } from "./cache/snapshots.ts";
import type { Builder, BuildOptions, BuildRequest } from "./builder.ts";
import { KeptContexts } from "./context/kept_contexts.ts";
import type { LazyReading } from "./context/lazy_mount.ts";
import type { Executor } from "./executor.ts";
import type { StepNetworks } from "./networks.ts";
import { Spool } from "./export/spool.ts";
import { OneBuild } from "./one_build.ts";
import { Planners } from "./plan/planners.ts";
import { CacheMounts } from "./solve/cache_mounts.ts";
import { CopiedFolders } from "./solve/copied_folders.ts";
import type { Engine, Unpack } from "./solve/engine_context.ts";
import { tooLong } from "./solve/failure.ts";
import { Flights } from "../base/flights.ts";
import { CacheRecords } from "./solve/records.ts";
import { Reporter } from "./solve/reporter.ts";
import { Workspace } from "./solve/workspace.ts";
import type { ImageStore } from "./worker.ts";

export type { Unpack } from "./solve/engine_context.ts";

export interface BuilderDeps {
  /** Folder of the build engine: cache records, cache mounts, running steps. Made if missing. */
  root: string;
  snapshotter: Snapshotter;
  executor: Executor;
  /** Networks of the steps; the builder disposes of them. */
  networks: StepNetworks;
  images: ImageResolver;
  log: Logger;
  /** Steps that run at once, over all builds. */
  concurrency: number;
  /** Most processes of one step at once; undefined: as many as the host allows. */
  stepProcesses?: number;
  /** Longest time of one step, and of one build, in milliseconds; undefined: no limit. */
  stepTimeoutMs?: number;
  buildTimeoutMs?: number;
  /** Most bytes of an ADD from a URL or of a fetched context; undefined: no limit. */
  maxDownloadBytes?: number;
  /** Most bytes of one archive, or one imported layer, unpacked; undefined: no limit. */
  maxUnpackedBytes?: number;
  /** How contexts are mounted that are read on demand. Default: by the kernel's 9P, else by FUSE. */
  lazyReading?: LazyReading;
  /** Most bytes of cache kept beyond what running builds use; undefined: no limit. */
  keepCacheBytes?: number;
  /** Entitlements that requests may ask for; default: none. */
  entitlements?: readonly Entitlement[];
  /** True: fetches of builds may not connect to addresses that lead back to this host. */
  checkedFetches?: boolean;
  /** Further shelves of the build cache. */
  shelves?: Shelf[];
  /** Folders of CDI files, for RUN --device; absent: the usual ones. */
  cdiFolders?: readonly string[];
  /** Stores images in addition to the registries that they are pushed to. */
  imageStore?: ImageStore;
  /** `(image, options) => unpackImage(snapshotter, image, options)` of lib/snapshot/unpack.ts. */
  unpack: Unpack;
}

class LocalBuilder implements Builder {
  readonly cache: BuildCache;
  readonly contexts: KeptContexts;
  readonly archives: Spool;
  #deps: BuilderDeps;
  #engine: Engine;
  #running = new Set<Promise<unknown>>();
  #stop = new AbortController();

  /** Trims running and waiting, at most one of each: the waiting one sees what all earlier builds left. */
  #trims = 0;

  constructor(
    deps: BuilderDeps,
    engine: Engine,
    kept: { cache: BuildCache; contexts: KeptContexts; archives: Spool },
  ) {
    this.#deps = deps;
    this.#engine = engine;
    this.cache = kept.cache;
    this.contexts = kept.contexts;
    this.archives = kept.archives;
  }

  async build(request: BuildRequest, options: BuildOptions): Promise<BuildResult> {
    const { buildTimeoutMs } = this.#deps;
    const signals = [this.#stop.signal, ...options.signal ? [options.signal] : []];
    using limit = deadline(
      buildTimeoutMs,
      () => tooLong("the build", "SVC_BUILD_TIMEOUT", buildTimeoutMs!),
      AbortSignal.any(signals),
    );
    const work = this.#build(request, options, limit.signal);
    this.#keep(work);
    try {
      return await work;
    } finally {
      if (this.cache.keepBytes !== undefined && this.#trims < 2) this.#keep(this.#trim());
    }
  }

  async #trim(): Promise<void> {
    this.#trims++;
    try {
      const { items, bytes } = await this.cache.prune({ signal: this.#stop.signal });
      if (items > 0) this.#deps.log.info("build cache pruned", { items, bytes });
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#deps.log.warn("build cache was not pruned", { error });
    } finally {
      this.#trims--;
    }
  }

  /** Cancels running builds and waits until their mounts are released. */
  async [Symbol.asyncDispose](): Promise<void> {
    const reason = new SvcError("cancelled", "Cannot go on building: the server is stopping");
    this.#stop.abort(reason);
    while (this.#running.size > 0) await Promise.allSettled([...this.#running]);
    await this.#engine.flights.idle();
    this.#engine.planners[Symbol.dispose]();
    await this.#engine.networks[Symbol.asyncDispose]();
    this.#engine.workspace.close();
    this.archives[Symbol.dispose]();
  }

  #keep(work: Promise<unknown>): void {
    const quiet = work.then(() => {}, () => {}).finally(() => this.#running.delete(quiet));
    this.#running.add(quiet);
  }

  async #build(
    request: BuildRequest,
    { onEvent }: BuildOptions,
    signal: AbortSignal,
  ): Promise<BuildResult> {
    // Keeps what this build finds in the cache until the build has ended.
    using _use = this.#engine.snapshotter.use();
    using _kept = this.cache.pin();
    const { images, entitlements, checkedFetches } = this.#deps;
    const { contexts, archives } = this;
    const one = new OneBuild({
      engine: this.#engine,
      images,
      entitlements,
      checkedFetches,
      contexts,
      archives,
      request,
      reporter: new Reporter(onEvent),
      signal,
    });
    try {
      const result = await one.run();
      if (one.changed) this.#keep(this.#sync());
      return result;
    } finally {
      // Another build may still run a step that this build began, and which reads this build's context.
      if (one.lent) this.#keep(one.release());
      else await one.release();
    }
  }

  async #sync(): Promise<void> {
    try {
      await this.#engine.snapshotter.sync();
    } catch (error) {
      this.#deps.log.warn("the build cache is not on disk yet", { error });
    }
  }
}

/**
 * Opens the engine and clears what a crashed server left (containers, mounts, contexts, unnamed snapshots).
 * One engine per `root`; builds may run at the same time. Dispose of the engine before the snapshotter.
 */
export async function createBuilder(deps: BuilderDeps): Promise<Builder> {
  const { root, snapshotter, executor, networks, imageStore, log, unpack } = deps;
  await executor.recover();
  await networks.recover();
  const workspace = await Workspace.open(root, snapshotter, deps);
  const records = await CacheRecords.open(`${root}/cache`, snapshotter);
  const copied = await CopiedFolders.open(`${root}/cache/copied`, snapshotter);
  const removed = await records.sweep();
  if (removed > 0) log.info("snapshots of interrupted builds removed", { removed });
  const contexts = await KeptContexts.open(`${root}/contexts-kept`, {
    reading: deps.lazyReading ?? { ways: ["kernel", "fuse"] },
    log,
  });
  const cacheMounts = new CacheMounts(`${root}/cache-mounts`, deps);
  await cacheMounts.recover();
  const archives = await Spool.open(`${root}/outputs`);
  const shelves = [
    new SnapshotShelf(snapshotter, records),
    records.links,
    copied.shelf,
    cacheMounts,
    contexts,
    archives,
    ...deps.shelves ?? [],
  ];
  const cache = new BuildCache(shelves, deps.keepCacheBytes);
  const engine: Engine = {
    snapshotter,
    executor,
    networks,
    records,
    workspace,
    planners: new Planners(),
    copied,
    cacheMounts,
    flights: new Flights(),
    slots: new Semaphore(Math.max(1, deps.concurrency)),
    imageStore,
    cdiFolders: deps.cdiFolders,
    stepProcesses: deps.stepProcesses,
    stepTimeoutMs: deps.stepTimeoutMs,
    maxDownloadBytes: deps.maxDownloadBytes,
    maxUnpackedBytes: deps.maxUnpackedBytes,
    unpack,
    log,
  };
  return new LocalBuilder(deps, engine, {
    cache,
    contexts,
    archives,
  });
}
