/** The build engine: {@linkcode Builder} on this machine (DESIGN.md section 9). */
import type { BuildResult } from "../api/build.ts";
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import { formatPlatform } from "../oci/platform.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import { BuildCache } from "./cache/cache.ts";
import { mountIds } from "./cache/export.ts";
import { openImports } from "./cache/places.ts";
import type { Shelf } from "./cache/shelf.ts";
import { SnapshotShelf } from "./cache/snapshots.ts";
import type { Builder, BuildOptions, BuildRequest } from "./builder.ts";
import { KeptContexts } from "./context/kept_contexts.ts";
import { type Context, receiveContext } from "./context/receive.ts";
import type { Executor } from "./executor.ts";
import { checkExport, type Exported, exportResult, PLAIN_OUTPUT } from "./export/export.ts";
import type { SolvedPlan } from "./export/assemble.ts";
import { Spool } from "./export/spool.ts";
import type { Entitlement } from "./inputs.ts";
import { planContexts } from "./named_contexts.ts";
import { parseDockerfile } from "./parse/parse.ts";
import { type BuildPlan, chain, isStep } from "./plan/graph.ts";
import { planBuild } from "./plan/plan.ts";
import { parsePlatforms, requireRunnable } from "./platforms.ts";
import { CacheMounts } from "./solve/cache_mounts.ts";
import type { BuildState, Engine, Unpack } from "./solve/engine_context.ts";
import { Flights } from "./solve/flights.ts";
import { CacheRecords } from "./solve/records.ts";
import { Reporter } from "./solve/reporter.ts";
import { Solver } from "./solve/solver.ts";
import { Trees } from "./solve/trees.ts";
import { Workspace } from "./solve/workspace.ts";

export type { Unpack } from "./solve/engine_context.ts";

export interface BuilderDeps {
  /** Folder of the build engine: cache records, cache mounts, running steps. Made if missing. */
  root: string;
  snapshotter: Snapshotter;
  executor: Executor;
  images: ImageResolver;
  log: Logger;
  /** Steps that run at once, over all builds. */
  concurrency: number;
  /** Bytes of cache that are kept when no build needs them; undefined: all. */
  keepCacheBytes?: number;
  /** What requests may ask for with `allow`; default nothing. */
  entitlements?: readonly Entitlement[];
  /** Further things that are kept between builds. */
  shelves?: Shelf[];
  /** `(image, options) => unpackImage(snapshotter, image, options)` of lib/snapshot/unpack.ts. */
  unpack: Unpack;
}

type Imports = NonNullable<Awaited<ReturnType<typeof openImports>>>;

const CONTEXT = { id: "context", name: "load build context" };
const EXPORT = { id: "export", name: "export image" };

/** Vertices of one of several platforms: "[linux/arm64 build 1/2] RUN make". */
function nameByPlatform(plan: BuildPlan): void {
  const platform = formatPlatform(plan.platform);
  for (const vertex of plan.vertices) {
    vertex.id = `${platform} ${vertex.id}`;
    vertex.name = vertex.name.startsWith("[")
      ? `[${platform} ${vertex.name.slice(1)}`
      : `[${platform}] ${vertex.name}`;
  }
}

function deliveryOf(request: BuildRequest, images: ImageResolver, spool: Spool) {
  const { tags, outputs = [], annotations = [], cacheTo = [] } = request;
  return {
    images,
    tags,
    outputs: outputs.length > 0 ? outputs : [PLAIN_OUTPUT],
    annotations,
    cacheTo,
    spool,
  };
}

class LocalBuilder implements Builder {
  readonly cache: BuildCache;
  readonly contexts: KeptContexts;
  readonly archives: Spool;
  #deps: BuilderDeps;
  #engine: Engine;
  #running = new Set<Promise<unknown>>();
  #stop = new AbortController();

  /** One trim runs and one waits at most: the second sees what all builds until then left. */
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
    const signals = [this.#stop.signal, ...options.signal ? [options.signal] : []];
    const work = this.#build(request, options, AbortSignal.any(signals));
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

  /** Cancels what runs and waits until it has let go of its mounts. */
  async [Symbol.asyncDispose](): Promise<void> {
    const reason = new SvcError("cancelled", "Cannot go on building: the server is stopping");
    this.#stop.abort(reason);
    while (this.#running.size > 0) await Promise.allSettled([...this.#running]);
    await this.#engine.flights.idle();
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
    const began = performance.now();
    // What this build finds in the cache stays there until it has ended.
    using _use = this.#engine.snapshotter.use();
    const reporter = new Reporter(onEvent);
    const platforms = parsePlatforms(request.platform);
    const context = await this.#receive(request, reporter, signal);
    const solvers: Solver[] = [];
    let imports: Imports | undefined;
    const { workspace, records } = this.#engine;
    const { secrets, ssh, addHosts, pull, network } = request;
    const trees = new Trees({ workspace, records, ssh, signal });
    try {
      const dockerfile = this.#dockerfile(request, context);
      const contexts = planContexts(request.contexts);
      const permitted = this.#deps.entitlements ?? [];
      const allow = request.allow?.filter((name) => permitted.includes(name));
      const plans: BuildPlan[] = [];
      for (const platform of platforms) {
        const plan = await planBuild({
          dockerfile,
          target: request.target,
          buildArgs: request.buildArgs,
          labels: request.labels,
          platform,
          images: this.#deps.images,
          contexts,
          addHosts,
          network,
          allow,
          pull,
          signal,
        });
        if (platforms.length > 1) nameByPlatform(plan);
        plans.push(plan);
      }
      for (const { message, line } of plans[0].warnings) reporter.warning(message, line);
      // What cannot be delivered or run is refused before any work is done.
      const delivery = deliveryOf(request, this.#deps.images, this.archives);
      checkExport(delivery);
      for (const plan of plans) await requireRunnable(plan.vertices, dockerfile.file);
      imports = await openImports(request.noCache ? [] : request.cacheFrom ?? [], {
        images: this.#deps.images,
        spool: this.archives,
        cacheMounts: this.#engine.cacheMounts,
        mountIds: mountIds(plans),
        reporter,
        signal,
      });
      for (const vertex of plans.flatMap((plan) => plan.vertices)) reporter.announce(vertex);
      const solved = await this.#solve(
        plans,
        {
          file: dockerfile.file,
          context,
          trees,
          secrets,
          ssh,
          noCache: request.noCache,
          ...(imports && { imported: imports.cache }),
        },
        solvers,
        reporter,
        signal,
      );
      const exported = await this.#export(
        { ...delivery, ...(imports && { imported: imports.cache }) },
        solved,
        reporter,
        signal,
      );
      if (reporter.ran > 0 || imports) this.#keep(this.#sync());
      return {
        ...exported,
        ran: reporter.ran,
        cached: reporter.cached,
        durationMs: Math.round(performance.now() - began),
      };
    } finally {
      await this.#release([trees, context, ...imports ? [imports] : []], solvers);
    }
  }

  /** All platforms at once; the first failure ends the others. */
  async #solve(
    plans: readonly BuildPlan[],
    build: Omit<BuildState, "epoch">,
    solvers: Solver[],
    reporter: Reporter,
    signal: AbortSignal,
  ): Promise<SolvedPlan[]> {
    const abort = new AbortController();
    const both = AbortSignal.any([signal, abort.signal]);
    const solved = await Promise.allSettled(plans.map(async (plan) => {
      const solver = new Solver(this.#engine, { ...build, epoch: plan.epoch }, reporter, both);
      solvers.push(solver);
      try {
        const layers = chain(plan.root).filter((vertex) => vertex.kind !== "image");
        const outcomes = await solver.solve(layers);
        // What the cache made unnecessary is as good as cached.
        for (const vertex of plan.vertices) {
          reporter.done(vertex.id, "cached", isStep(vertex));
        }
        return { plan, outcomes, ...await solver.knowledge() };
      } catch (error) {
        abort.abort(error);
        throw error;
      }
    }));
    if (abort.signal.aborted) throw abort.signal.reason;
    return solved.map((one) => (one as PromiseFulfilledResult<SolvedPlan>).value);
  }

  async #receive(
    request: BuildRequest,
    reporter: Reporter,
    signal: AbortSignal,
  ): Promise<Context> {
    reporter.announce(CONTEXT);
    reporter.step(CONTEXT.id, { type: "start" });
    let shown = 0;
    try {
      const context = await receiveContext(request.context, {
        directory: this.#engine.workspace.path("contexts"),
        dockerfile: request.dockerfile,
        kept: this.contexts,
        onProgress: (bytes, total) => {
          // A megabyte at a time is as fine as anyone can follow.
          if (total === undefined && bytes - shown < 1 << 20) return;
          shown = bytes;
          reporter.step(CONTEXT.id, { type: "progress", label: "received", current: bytes, total });
        },
        signal,
      });
      const { received } = context;
      reporter.step(CONTEXT.id, {
        type: "progress",
        label: "received",
        current: received,
        total: received,
      });
      reporter.done(CONTEXT.id, "ran", false);
      return context;
    } catch (error) {
      reporter.failed(CONTEXT.id, error);
      throw error;
    }
  }

  async #export(
    delivery: ReturnType<typeof deliveryOf> & { imported?: Imports["cache"] },
    solved: SolvedPlan[],
    reporter: Reporter,
    signal: AbortSignal,
  ): Promise<Exported> {
    reporter.announce(EXPORT);
    reporter.step(EXPORT.id, { type: "start" });
    try {
      const exported = await exportResult(this.#engine, {
        ...delivery,
        solved,
        onWarning: (message) => reporter.warning(message),
        onProgress: (label, current, total) =>
          reporter.step(EXPORT.id, { type: "progress", label, current, total }),
        signal,
      });
      reporter.done(EXPORT.id, "ran", false);
      return exported;
    } catch (error) {
      reporter.failed(EXPORT.id, error);
      throw error;
    }
  }

  #dockerfile(request: BuildRequest, context: Context) {
    const text = context.dockerfile;
    if (text === undefined) {
      throw new SvcError(
        "dockerfile_invalid",
        `Cannot build: ${request.dockerfile} is not in the build context`,
        { help: "name the Dockerfile with -f, relative to the context" },
      );
    }
    return parseDockerfile(text, { file: request.dockerfile });
  }

  /** Another build may still be running a step that this one began, with this one's context. */
  async #release(used: AsyncDisposable[], solvers: readonly Solver[]): Promise<void> {
    const letGo = async () => {
      await Promise.all(solvers.map((solver) => solver.released()));
      for (const one of used) await one[Symbol.asyncDispose]();
    };
    if (solvers.some((solver) => solver.lent)) return this.#keep(letGo());
    await letGo();
  }

  async #sync(): Promise<void> {
    try {
      await this.#engine.snapshotter.sync();
    } catch (error) {
      this.#deps.log.warn("build cache not yet on disk", { error });
    }
  }
}

/**
 * Opens the engine: clears what a crashed server left (containers, mounts, contexts, unnamed snapshots).
 * One per `root`; builds may run at the same time. Dispose of it before the snapshotter.
 */
export async function createBuilder(deps: BuilderDeps): Promise<Builder> {
  const { root, snapshotter, executor, log, unpack } = deps;
  await executor.recover();
  const workspace = await Workspace.open(root, snapshotter);
  const records = await CacheRecords.open(`${root}/cache`, snapshotter);
  const removed = await records.sweep();
  if (removed > 0) log.info("snapshots of interrupted builds removed", { removed });
  const contexts = await KeptContexts.open(`${root}/contexts-kept`);
  const cacheMounts = new CacheMounts(`${root}/cache-mounts`);
  await cacheMounts.recover();
  const shelves = [
    new SnapshotShelf(snapshotter, records),
    records.links,
    cacheMounts,
    contexts,
    ...deps.shelves ?? [],
  ];
  const cache = new BuildCache(shelves, deps.keepCacheBytes);
  const engine: Engine = {
    snapshotter,
    executor,
    records,
    workspace,
    cacheMounts,
    flights: new Flights(),
    slots: new Semaphore(Math.max(1, deps.concurrency)),
    unpack,
    log,
  };
  return new LocalBuilder(deps, engine, {
    cache,
    contexts,
    archives: await Spool.open(`${root}/outputs`),
  });
}
