/**
 * Solves a plan: keys first, records next, work last. Independent vertices run at the same time; the
 * first failure cancels the rest of the build.
 */
import { deadline } from "../../base/deadline.ts";
import { SvcError } from "../../base/errors.ts";
import type { Digest } from "../../oci/types.ts";
import type { UnpackProgress } from "../../snapshot/unpack.ts";
import type { ForeignStep } from "../cache/import.ts";
import {
  hasSource,
  type ImageVertex,
  inputs,
  isStep,
  type RunMount,
  type RunVertex,
  type Source,
  type StepVertex,
  type Vertex,
  type WorkdirVertex,
} from "../plan/graph.ts";
import { ContentKeys } from "./content_keys.ts";
import { runWorkdir } from "./copy_step.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { stepFailed, tooLong } from "./failure.ts";
import type { Flight } from "../../base/flights.ts";
import { copyKey, imageKey, runKey, SCRATCH_KEY, workdirKey } from "./keys.ts";
import type { Reporter, StepEvent } from "./reporter.ts";
import { runCopy } from "./run_copy.ts";
import { runCommand } from "./run_step.ts";

type Emit = (event: StepEvent) => void;

export class Solver {
  #engine: Engine;
  #build: BuildState;
  #reporter: Reporter;
  #abort = new AbortController();
  #signal: AbortSignal;
  #keys = new Map<Vertex, Promise<string>>();
  #content: ContentKeys;
  #outcomes = new Map<Vertex, Promise<Outcome>>();
  #flights: Flight<Outcome>[] = [];
  /** Part of the flights' keys that keeps a --no-cache build from joining other builds' steps. */
  #space: string;

  constructor(engine: Engine, build: BuildState, reporter: Reporter, signal: AbortSignal) {
    this.#engine = engine;
    this.#build = build;
    this.#reporter = reporter;
    this.#signal = AbortSignal.any([signal, this.#abort.signal]);
    this.#content = new ContentKeys({
      engine,
      build,
      reporter,
      signal: this.#signal,
      key: (vertex) => this.#key(vertex),
      outcome: (vertex) => this.#outcome(vertex),
    });
    this.#space = build.noCache ? ` ${crypto.randomUUID()}` : "";
  }

  /**
   * Gives the outcomes of these vertices, and tells `onOutcome` each one as it comes. Throws the first
   * failure, after all work that only this build needs has ended.
   */
  async solve(
    vertices: Vertex[],
    onOutcome: (vertex: Vertex, outcome: Outcome) => void = () => {},
  ): Promise<Map<Vertex, Outcome>> {
    let first: { error: unknown } | undefined;
    const results = new Map<Vertex, Outcome>();
    await Promise.all(vertices.map(async (vertex) => {
      try {
        const outcome = await this.#outcome(vertex);
        onOutcome(vertex, outcome);
        results.set(vertex, outcome);
      } catch (error) {
        first ??= { error };
        this.#abort.abort(error);
      }
    }));
    if (first) {
      await Promise.allSettled([...this.#outcomes.values(), ...this.#keys.values()]);
      await Promise.all(this.#flights.flatMap((one) => one.shared() ? [] : one.ended));
      throw first.error;
    }
    return results;
  }

  /** The keys and links that this build found, for cache exports. Only to be called after `solve`. */
  async knowledge(): Promise<{ keys: Map<Vertex, string>; links: ReadonlyMap<string, string> }> {
    const keys = new Map<Vertex, string>();
    for (const [vertex, key] of this.#keys) keys.set(vertex, await key);
    return { keys, links: this.#content.links };
  }

  /** Settles when no step that this build began uses the build's context any more. */
  async released(): Promise<void> {
    await Promise.all(this.#flights.flatMap((one) => one.joined ? [] : one.ended));
  }

  /** True while another build shares a step that this build began, so that {@linkcode released} has to wait. */
  get lent(): boolean {
    return this.#flights.some((one) => !one.joined && one.shared());
  }

  #outcome(vertex: Vertex): Promise<Outcome> {
    let known = this.#outcomes.get(vertex);
    if (!known) {
      known = this.#solveOne(vertex).catch((error) => {
        throw this.#failed(vertex, error);
      });
      this.#outcomes.set(vertex, known);
    }
    return known;
  }

  /** Ends the build. The error names the vertex that failed first, not the vertices that needed it. */
  #failed(vertex: Vertex, error: unknown): unknown {
    const failure = stepFailed(this.#build.file, vertex, error);
    if (!this.#signal.aborted) this.#reporter.failed(vertex.id, failure);
    this.#abort.abort(failure);
    return failure;
  }

  async #solveOne(vertex: Vertex): Promise<Outcome> {
    this.#signal.throwIfAborted();
    const key = await this.#key(vertex);
    const hit = await this.#lookup(vertex, key);
    if (hit) {
      this.#reporter.done(vertex.id, "cached", isStep(vertex));
      return hit;
    }
    const foreign = this.#build.noCache ? undefined : this.#build.imported?.step(key);
    const needed = foreign && isStep(vertex) ? [vertex.base] : inputs(vertex);
    await Promise.all(
      needed.map((input) => typeof input === "string" ? undefined : this.#ready(input)),
    );
    const join = () => {
      this.#signal.throwIfAborted();
      const flight = this.#engine.flights.join(
        key + this.#space,
        (signal, emit) =>
          foreign && isStep(vertex)
            ? this.#fetch(vertex, key, foreign, signal, emit)
            : this.#perform(vertex, key, signal, emit),
        (event) => this.#reporter.step(vertex.id, event),
        this.#signal,
      );
      this.#flights.push(flight);
      return flight;
    };
    let flight = join();
    const outcome = await flight.result.catch((error) => {
      if (!flight.joined || isVerdict(error)) throw error;
      // The step was begun by another build, which failed for a reason of its own (its caller left, say).
      // This build tries the step itself.
      return (flight = join()).result;
    });
    const ran = outcome.ran && !flight.joined;
    this.#reporter.done(vertex.id, ran ? "ran" : "cached", isStep(vertex));
    return outcome;
  }

  /** Waits for an input. A tree has to be opened even where a link gave its key without that. */
  async #ready(input: Vertex): Promise<void> {
    if (input.kind !== "tree") return void await this.#outcome(input);
    try {
      await this.#build.trees.open(input, this.#reporter);
    } catch (error) {
      throw this.#failed(input, error);
    }
    this.#reporter.done(input.id, "ran", false);
  }

  #key(vertex: Vertex): Promise<string> {
    let known = this.#keys.get(vertex);
    if (!known) {
      known = this.#makeKey(vertex).catch((error) => {
        throw this.#failed(vertex, error);
      });
      this.#keys.set(vertex, known);
    }
    return known;
  }

  #sourceKey(source: Source): Promise<string> | string {
    return typeof source === "string" ? SCRATCH_KEY : this.#key(source);
  }

  async #makeKey(vertex: Vertex): Promise<string> {
    switch (vertex.kind) {
      case "image":
        return imageKey(vertex);
      case "workdir":
        return workdirKey(vertex, await this.#sourceKey(vertex.base));
      case "copy": {
        const [base, content] = await Promise.all([
          this.#sourceKey(vertex.base),
          this.#content.ofCopy(vertex),
        ]);
        return copyKey(vertex, base, content);
      }
      case "run":
        return await this.#runKey(vertex);
      case "tree":
        throw new SvcError("internal", `Cannot make a key of ${vertex.text}: its content has one`);
    }
  }

  async #runKey(vertex: RunVertex): Promise<string> {
    const found = new Map<RunMount, string>();
    await Promise.all(vertex.mounts.map(async (mount) => {
      if (mount.type !== "bind") return;
      found.set(mount, await this.#content.ofMount(mount.from, mount.source));
    }));
    const base = await this.#sourceKey(vertex.base);
    return runKey(vertex, base, (mount) => found.get(mount)!, this.#build.epoch);
  }

  async #lookup(vertex: Vertex, key: string): Promise<Outcome | undefined> {
    if (vertex.kind === "image") {
      return key === SCRATCH_KEY ? { key, created: 0, ran: false } : undefined;
    }
    if (this.#build.noCache) return undefined;
    const record = await this.#engine.records.find(key);
    return record &&
      { key, snapshot: record.snapshot, created: record.created, record, ran: false };
  }

  /** The outcome of an input; only to be called for inputs that were awaited. */
  async #resultOf(source: Source): Promise<Outcome | undefined> {
    return typeof source === "string" ? undefined : await this.#outcomes.get(source);
  }

  async #perform(
    vertex: Vertex,
    key: string,
    signal: AbortSignal,
    emit: Emit,
  ): Promise<Outcome> {
    if (vertex.kind === "image") return await this.#unpack(vertex, key, signal, emit);
    if (vertex.kind === "tree") throw new SvcError("internal", "Cannot run a tree: it is no step");
    // Another build may have finished the same step since the first look.
    const late = await this.#lookup(vertex, key);
    if (late) return late;
    return await this.#engine.slots.run(async () => {
      emit({ type: "start" });
      const { stepTimeoutMs } = this.#engine;
      const late = () => tooLong("the step", "SVC_BUILD_STEP_TIMEOUT", stepTimeoutMs!);
      using limit = deadline(stepTimeoutMs, late, signal);
      return await this.#execute(vertex, key, limit.signal, emit);
    }, signal);
  }

  /** Takes a step's layer from an imported cache; where that fails, runs the step. */
  async #fetch(
    vertex: StepVertex,
    key: string,
    { step, layer }: ForeignStep,
    signal: AbortSignal,
    emit: Emit,
  ): Promise<Outcome> {
    const { workspace, records } = this.#engine;
    const late = await this.#lookup(vertex, key);
    if (late) return late;
    const base = await this.#resultOf(vertex.base);
    try {
      const { descriptor: { digest, size } } = layer;
      emit({ type: "progress", label: short(digest), current: 0, total: size });
      const { snapshot, diffID } = await workspace.unpack(
        base?.snapshot,
        await layer.open(signal),
        signal,
      );
      if (diffID !== step.diffID) {
        throw new SvcError(
          "digest_invalid",
          `Cannot use layer ${digest}: it is ${diffID} unpacked`,
        );
      }
      emit({ type: "progress", label: short(digest), current: size, total: size });
      const blobs = { [step.packing]: { descriptor: layer.descriptor, diffID } };
      const { created } = step;
      const record = { version: 1 as const, key, snapshot, created, blobs };
      await records.put(record);
      return { key, snapshot, created, record, ran: false };
    } catch (error) {
      signal.throwIfAborted();
      this.#reporter.warning(
        `${vertex.text}: the imported cache is of no use: ${(error as Error).message}`,
        vertex.line,
      );
    }
    await Promise.all(inputs(vertex).map((input) => this.#ready(input)));
    return await this.#perform(vertex, key, signal, emit);
  }

  async #unpack(
    vertex: ImageVertex,
    key: string,
    signal: AbortSignal,
    emit: Emit,
  ): Promise<Outcome> {
    let fetched = false;
    const onProgress = ({ layer, state }: UnpackProgress) => {
      if (state === "present") return;
      fetched = true;
      emit({ type: "start" });
      const current = state === "done" ? layer.size : 0;
      emit({ type: "progress", label: short(layer.digest), current, total: layer.size });
    };
    const kept = this.#build.keep?.(vertex.image, signal);
    const unpacking = this.#engine.unpack(kept?.image ?? vertex.image, { onProgress, signal });
    const snapshot = await unpacking.finally(() => kept?.settled());
    // `created` is 0: the base image's history has its own times.
    return { key, snapshot, created: 0, ran: fetched };
  }

  async #execute(
    vertex: StepVertex,
    key: string,
    signal: AbortSignal,
    emit: Emit,
  ): Promise<Outcome> {
    const base = await this.#resultOf(vertex.base);
    const snapshot = vertex.kind === "copy"
      ? await runCopy({
        engine: this.#engine,
        build: this.#build,
        vertex,
        base,
        baseKey: await this.#sourceKey(vertex.base),
        resultOf: (source) => this.#resultOf(source),
        signal,
      })
      : await this.#change(vertex, base, signal, emit);
    const created = Date.now();
    const record = { version: 1 as const, key, snapshot, created };
    await this.#engine.records.put(record);
    return { key, snapshot, created, record, ran: true };
  }

  async #change(
    vertex: RunVertex | WorkdirVertex,
    base: Outcome | undefined,
    signal: AbortSignal,
    emit: Emit,
  ): Promise<string> {
    await using mounted = await this.#engine.workspace.writable(base?.snapshot);
    if (vertex.kind === "workdir") await runWorkdir(vertex, mounted.root);
    else {
      const outcomes = new Map<Source, Outcome | undefined>();
      for (const mount of vertex.mounts.filter(hasSource)) {
        outcomes.set(mount.from, await this.#resultOf(mount.from));
      }
      const outcomeOf = (from: Source) => outcomes.get(from);
      await runCommand(this.#engine, this.#build, vertex, mounted.root, outcomeOf, emit, signal);
    }
    signal.throwIfAborted();
    return await mounted.commit(signal);
  }
}

/** True where the command itself ended with an error: running it again would give the same. */
const isVerdict = (error: unknown) =>
  error instanceof SvcError && error.code === "build_failed" &&
  error.detail?.exitCode !== undefined;

/** The part of a digest that people compare: its first 12 digits. */
const short = (digest: Digest) => digest.slice(digest.indexOf(":") + 1).slice(0, 12);
