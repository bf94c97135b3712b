/** Runs one build from its context to its result: plans, solves each platform, delivers. */
import { PLAIN_OUTPUT } from "../api/build_output.ts";
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
import { StepTexts } from "./solve/step_texts.ts";
import { Trees } from "./solve/trees.ts";
import { Views } from "./solve/views.ts";

type Imports = NonNullable<Awaited<ReturnType<typeof openImports>>>;

const CONTEXT = { id: "context", name: "load build context" };
const EXPORT = { id: "export", name: "export image" };

/** True where an output or attestation reads the result's files; the base image's files count too. */
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

/**
 * The repository in the server's own registry that the result is pushed to, where the base image's layers are
 * pushed unchanged.
 */
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
  /** True: fetches may not connect to addresses that lead back here. Builds with network.host are exempt. */
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
  /** Resources that steps use; released when no step runs any more. */
  #used: AsyncDisposable[] = [];
  /** Resolves when the resources released during the build are gone. */
  #gone?: Promise<void>;
  #imports?: Imports;
  /** The source of a fetched context. */
  #source?: TreeSource;

  constructor(parts: BuildParts) {
    const { images, request: { caller, logins, registry } } = parts;
    const own = images.forCaller?.({ logins, registry, mayPull: caller?.mayPull });
    this.#parts = { ...parts, images: own ?? images };
  }

  /** True where the cache has new entries. */
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

  /** Releases one resource that this build's steps do not use any more, while the build goes on. */
  #letGo(one: AsyncDisposable): void {
    // A step that another build shares may still use it.
    if (this.lent) return;
    this.#used.splice(this.#used.indexOf(one), 1);
    const released = Promise.all(this.#solvers.map((solver) => solver.released()));
    this.#gone = released.then(() => one[Symbol.asyncDispose]());
    this.#gone.catch(() => {/* `release` awaits it and throws */});
  }

  async run(): Promise<BuildResult> {
    const { engine, images, archives, request, reporter, signal } = this.#parts;
    const began = performance.now();
    const startedOn = Date.now();
    const platforms = parsePlatforms(request.platform);
    const { workspace, records, maxDownloadBytes: maxBytes, maxUnpackedBytes } = engine;
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
    // Refuses outputs that cannot be delivered, before any work is done.
    const delivery = deliveryOf(request, images, archives);
    checkExport(delivery);
    checkAttestations(delivery.attest, delivery.outputs);
    await this.#requireAble(plans);
    const imported = await this.#import(plans);
    for (const vertex of plans.flatMap((plan) => plan.vertices)) reporter.announce(vertex);
    const views = new Views(workspace);
    const texts = new StepTexts(workspace);
    this.#used.push(views, texts);
    const sources = { context, trees, views, texts, secrets, ssh };
    const state = { file, ...sources, noCache, imported, epoch: given };
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

  /** Opens the caches that the request names. */
  async #import(plans: readonly BuildPlan[]): Promise<Imports["cache"] | undefined> {
    const { engine: { cacheMounts }, images, archives: spool, reporter, signal } = this.#parts;
    const { noCache, cacheFrom = [] } = this.#parts.request;
    this.#imports = await openImports(noCache ? [] : cacheFrom, {
      ...{ images, spool, cacheMounts, mountNames: mountNames(plans), reporter, signal },
    });
    if (this.#imports) this.#used.push(this.#imports);
    return this.#imports?.cache;
  }

  /** Refuses what this machine cannot run, or a step may not have, before any work is done. */
  async #requireAble(plans: readonly BuildPlan[]): Promise<void> {
    const { engine: { workspace, cdiFolders: folders }, request: { dockerfile: file } } =
      this.#parts;
    const machine = thisMachine(() => workspace.temporary());
    const asked = allowedOf(this.#parts);
    const permitted = this.#parts.entitlements ?? [];
    for (const { vertices } of plans) {
      await requireRunnable(vertices, file, machine);
      await requireDevices(vertices, { file, asked, permitted, folders });
    }
  }

  /**
   * The context and the plans. Both are made at the same time where the caller has sent the Dockerfile ahead.
   */
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
    early?.catch(() => {/* awaited below */});
    try {
      const context = await this.#receive(trees);
      this.#used.push(context);
      return { context, plans: await (early ?? plansOf(context, input)) };
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  }

  /** Sets the epoch of a reproducible build's plans where none was given: the newest time in the context. */
  async #dated(
    { context, plans }: { context: Context; plans: BuildPlan[] },
  ): Promise<BuildPlan[]> {
    const { request: { reproducible }, signal } = this.#parts;
    if (!reproducible || plans[0].epoch !== undefined) return plans;
    // In a repository all files have the commit's time.
    const whole = [{ path: "", name: "", directory: true }];
    const newest = await latestTime(context.tree, whole, { signal });
    return plans.map((plan) => ({ ...plan, epoch: Math.max(0, newest) }));
  }

  /**
   * Solves all platforms at the same time; the first failure ends the others. `wholeRoot`: unpacks the base
   * image too, where no step builds on it.
   */
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
        // Vertices that the cache made unnecessary count as cached.
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
          // Bytes between two progress events: more events help nobody.
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
