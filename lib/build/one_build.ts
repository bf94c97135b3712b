/** One build from its context to its result: planned, solved for each platform, delivered. */
import type { BuildResult } from "../api/build.ts";
import type { Entitlement } from "../api/build_entitlements.ts";
import { buildInfo } from "../base/build_info.ts";
import type { Logger } from "../base/log.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import { Attestations, checkAttestations } from "./attest/attest.ts";
import type { BuildRequest } from "./builder.ts";
import { mountNames } from "./cache/export.ts";
import { openImports } from "./cache/places.ts";
import { fetchedContext, fetchedSource } from "./context/fetched.ts";
import type { KeptContexts } from "./context/kept_contexts.ts";
import { type Context, receiveContext } from "./context/receive.ts";
import { latestTime } from "./context/tree_keys.ts";
import type { SolvedPlan } from "./export/assemble.ts";
import {
  checkExport,
  type Exported,
  type ExportRequest,
  exportResult,
  packingsOf,
  PLAIN_OUTPUT,
} from "./export/export.ts";
import { LayersAhead } from "./export/layers_ahead.ts";
import type { Spool } from "./export/spool.ts";
import { requireDevices } from "./devices.ts";
import { type BuildPlan, chain, isStep, type TreeSource } from "./plan/graph.ts";
import { allowedOf, type PlansInput, plansOf, toldText } from "./plans.ts";
import { parsePlatforms, requireRunnable, thisMachine } from "./platforms.ts";
import { keepBase, type OwnPlace } from "./solve/base_keeper.ts";
import type { BuildState, Engine } from "./solve/engine_context.ts";
import type { Reporter } from "./solve/reporter.ts";
import { Solver } from "./solve/solver.ts";
import { Trees } from "./solve/trees.ts";
import { Views } from "./solve/views.ts";

type Imports = NonNullable<Awaited<ReturnType<typeof openImports>>>;

const CONTEXT = { id: "context", name: "load build context" };
const EXPORT = { id: "export", name: "export image" };

/** Whether anybody reads the result's files, though it may be an image that nothing was added to. */
const needsRoot = ({ outputs, attest }: ReturnType<typeof deliveryOf>) =>
  outputs.some(({ type }) => type === "tar" || type === "local") ||
  attest.some(({ type }) => type === "sbom");

function deliveryOf(request: BuildRequest, images: ImageResolver, spool: Spool) {
  const { tags, outputs = [], annotations = [], cacheTo = [], attest = [] } = request;
  return {
    images,
    tags,
    outputs: outputs.length > 0 ? outputs : [PLAIN_OUTPUT],
    annotations,
    cacheTo,
    attest,
    spool,
  };
}

/** Where the result goes in the own registry with its base image's layers as they are. */
function ownPlace({ images, tags, outputs }: ReturnType<typeof deliveryOf>): OwnPlace | undefined {
  for (const { type, push, forceCompression, names } of outputs) {
    if (type !== "image" || !push || forceCompression) continue;
    for (const name of names.length > 0 ? names : tags) {
      const { sink, own: source, repository } = images.target(name);
      if (source) return { sink, source, repository };
    }
  }
}

const keeping = (plan: BuildPlan, place: OwnPlace | undefined, log: Logger): BuildState["keep"] =>
  place &&
  ((image, signal) =>
    image.descriptor.digest === plan.base?.descriptor.digest
      ? keepBase(image, place, { log, signal })
      : undefined);

export interface BuildParts {
  engine: Engine;
  images: ImageResolver;
  /** What requests may ask for with `allow`. */
  entitlements?: readonly Entitlement[];
  /** What is fetched comes from addresses that do not lead back here, but for builds with network.host. */
  checkedFetches?: boolean;
  contexts: KeptContexts;
  archives: Spool;
  request: BuildRequest;
  reporter: Reporter;
  signal: AbortSignal;
}

export class OneBuild {
  #parts: BuildParts;
  #solvers: Solver[] = [];
  /** What steps use: let go of when none of them runs any more. */
  #used: AsyncDisposable[] = [];
  /** What is let go of meanwhile. */
  #gone?: Promise<void>;
  #imports?: Imports;
  /** What the context was fetched from. */
  #source?: TreeSource;

  constructor(parts: BuildParts) {
    const { images, request: { caller, logins, registry } } = parts;
    const own = images.forCaller?.({ logins, registry, mayPull: caller?.mayPull });
    this.#parts = { ...parts, images: own ?? images };
  }

  /** True where the cache has something that it did not have before. */
  get changed(): boolean {
    return this.#parts.reporter.ran > 0 || this.#imports !== undefined;
  }

  /** True while another build shares a step of this one: {@linkcode release} waits for it. */
  get lent(): boolean {
    return this.#solvers.some((solver) => solver.lent);
  }

  async release(): Promise<void> {
    await Promise.all(this.#solvers.map((solver) => solver.released()));
    for (const one of this.#used.splice(0)) await one[Symbol.asyncDispose]();
    await this.#gone;
  }

  /** The same of one thing that no step uses any more, while the build goes on. */
  #letGo(one: AsyncDisposable): void {
    // Another build's step may use it.
    if (this.lent) return;
    this.#used.splice(this.#used.indexOf(one), 1);
    const released = Promise.all(this.#solvers.map((solver) => solver.released()));
    this.#gone = released.then(() => one[Symbol.asyncDispose]());
    this.#gone.catch(() => {/* told by who waits for it at the end */});
  }

  async run(): Promise<BuildResult> {
    const { engine, images, archives, request, reporter, signal } = this.#parts;
    const began = performance.now();
    const startedOn = Date.now();
    const platforms = parsePlatforms(request.platform);
    const { workspace, records, cacheMounts, maxDownloadBytes: maxBytes, maxUnpackedBytes } =
      engine;
    const { secrets, ssh, noCache } = request;
    const checked = this.#parts.checkedFetches &&
      !allowedOf(this.#parts).includes("network.host");
    const trees = new Trees({
      ...{ workspace, records, ssh, signal, maxBytes, maxUnpackedBytes },
      checked,
    });
    this.#used.push(trees);
    const begun = await this.#begin(trees, platforms);
    const { context } = begun;
    const given = begun.plans[0].epoch;
    const plans = await this.#dated(begun);
    const file = request.dockerfile;
    for (const { message, line, rule } of plans[0].warnings) reporter.warning(message, line, rule);
    // What cannot be delivered or run is refused before any work is done.
    const delivery = deliveryOf(request, images, archives);
    checkExport(delivery);
    checkAttestations(delivery.attest, delivery.outputs);
    const machine = thisMachine(() => workspace.temporary());
    for (const { vertices } of plans) {
      await requireRunnable(vertices, file, machine);
      await requireDevices(vertices, {
        file,
        asked: allowedOf(this.#parts),
        permitted: this.#parts.entitlements ?? [],
        folders: engine.cdiFolders,
      });
    }
    this.#imports = await openImports(noCache ? [] : request.cacheFrom ?? [], {
      images,
      spool: archives,
      cacheMounts,
      mountNames: mountNames(plans),
      reporter,
      signal,
    });
    if (this.#imports) this.#used.push(this.#imports);
    const imported = this.#imports?.cache;
    for (const vertex of plans.flatMap((plan) => plan.vertices)) reporter.announce(vertex);
    const views = new Views(workspace);
    this.#used.push(views);
    const state = { file, context, trees, views, secrets, ssh, noCache, imported, epoch: given };
    await using ahead = await LayersAhead.open(engine, {
      packings: packingsOf(delivery.outputs),
      foreign: imported && ((digest) => imported.blob(digest)),
      signal,
    });
    const place = ownPlace(delivery);
    const solved = await this.#solve(plans, state, {
      ahead,
      place,
      wholeRoot: needsRoot(delivery),
    });
    this.#letGo(views);
    const extrasOf = this.#attestations(delivery, solved, { context, startedOn });
    const { layers } = ahead;
    const exported = await this.#export({ ...delivery, layers, extrasOf }, solved);
    return {
      ...exported,
      ran: reporter.ran,
      cached: reporter.cached,
      durationMs: Math.round(performance.now() - began),
    };
  }

  /** The context, and what is to be done with it: at the same time, where the caller told that. */
  async #begin(
    trees: Trees,
    platforms: PlansInput["platforms"],
  ): Promise<{ plans: BuildPlan[]; context: Context }> {
    const { engine: { planners }, signal } = this.#parts;
    const failed = new AbortController();
    const told = toldText(this.#parts.request);
    const input = { ...this.#parts, planners, platforms };
    const early = told &&
      plansOf(told, { ...input, signal: AbortSignal.any([signal, failed.signal]) });
    early?.catch(() => {/* told where it is waited for */});
    try {
      const context = await this.#receive(trees);
      this.#used.push(context);
      return { context, plans: await (early ?? plansOf(context, input)) };
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  }

  /** Plans of a reproducible build have an epoch; where none is given, the newest time in the context. */
  async #dated(
    { context, plans }: { context: Context; plans: BuildPlan[] },
  ): Promise<BuildPlan[]> {
    const { request: { reproducible }, signal } = this.#parts;
    if (!reproducible || plans[0].epoch !== undefined) return plans;
    // Of a repository all files have the commit's.
    const whole = [{ path: "", name: "", directory: true }];
    const newest = await latestTime(context.tree, whole, { signal });
    return plans.map((plan) => ({ ...plan, epoch: Math.max(0, newest) }));
  }

  /** All platforms at once; the first failure ends the others. `wholeRoot`: a base image's files too. */
  async #solve(
    plans: readonly BuildPlan[],
    state: Omit<BuildState, "keep">,
    { ahead, place, wholeRoot }: { ahead: LayersAhead; place?: OwnPlace; wholeRoot: boolean },
  ): Promise<SolvedPlan[]> {
    const { engine, reporter, signal } = this.#parts;
    const abort = new AbortController();
    const both = AbortSignal.any([signal, abort.signal]);
    const solved = await Promise.allSettled(plans.map(async (plan) => {
      const keep = keeping(plan, place, engine.log);
      const solver = new Solver(engine, { ...state, keep }, reporter, both);
      this.#solvers.push(solver);
      try {
        const layers = chain(plan.root);
        const own = layers.filter((vertex) => vertex.kind !== "image");
        const wanted = wholeRoot && own.length === 0 ? layers : own;
        const outcomes = await solver.solve(wanted, (vertex, outcome) => {
          if (isStep(vertex)) ahead.begin(outcome, plan.epoch);
        });
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

  async #receive(trees: Trees): Promise<Context> {
    const { engine, contexts, request, reporter, signal } = this.#parts;
    const { contextUrl } = request;
    reporter.announce(CONTEXT);
    reporter.step(CONTEXT.id, { type: "start" });
    let shown = 0;
    try {
      if (contextUrl !== undefined) {
        this.#source = fetchedSource(contextUrl);
        const fetching = { ...CONTEXT, text: contextUrl, tree: this.#source };
        const tree = await trees.open(fetching, reporter);
        reporter.done(CONTEXT.id, "ran", false);
        return await fetchedContext(contextUrl, tree, request.dockerfile);
      }
      const context = await receiveContext(request.context, {
        directory: engine.workspace.path("contexts"),
        dockerfile: request.dockerfile,
        kept: contexts,
        maxBytes: request.maxContextBytes,
        maxUnpackedBytes: engine.maxUnpackedBytes,
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

  #attestations(
    { attest, tags }: ReturnType<typeof deliveryOf>,
    solved: SolvedPlan[],
    { context, startedOn }: { context: Context; startedOn: number },
  ): ExportRequest["extrasOf"] {
    if (attest.length === 0) return undefined;
    const { engine, request, signal } = this.#parts;
    const attestations = new Attestations(engine, {
      solved,
      specs: attest,
      names: tags,
      input: {
        ...request,
        dockerfile: { path: request.dockerfile, text: context.dockerfile! },
        source: this.#source?.material?.(),
        startedOn,
        version: buildInfo().version,
      },
      signal,
    });
    return (images) => attestations.extras(images);
  }

  async #export(
    delivery: ReturnType<typeof deliveryOf> & Pick<ExportRequest, "layers" | "extrasOf">,
    solved: SolvedPlan[],
  ): Promise<Exported> {
    const { engine, reporter, signal } = this.#parts;
    reporter.announce(EXPORT);
    reporter.step(EXPORT.id, { type: "start" });
    try {
      const exported = await exportResult(engine, {
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
}
