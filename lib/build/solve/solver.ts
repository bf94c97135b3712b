/**
 * Solves a plan: keys first, records next, work last. Independent vertices run at the same time; the
 * first failure cancels the rest of the build.
 */
import { SvcError } from "../../base/errors.ts";
import type { Digest } from "../../oci/types.ts";
import type { UnpackProgress } from "../../snapshot/unpack.ts";
import type { ForeignStep } from "../cache/import.ts";
import { contentKey, select, type Tree } from "../context/tree.ts";
import {
  type CopyVertex,
  type ImageVertex,
  inputs,
  type RunVertex,
  type Source,
  type Vertex,
} from "../plan/graph.ts";
import { pick, pickedContent, runCopy, runWorkdir } from "./copy_step.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { stepFailed } from "./failure.ts";
import type { Flight } from "./flights.ts";
import { copyKey, copyLinkKey, imageKey, runKey, SCRATCH_KEY, workdirKey } from "./keys.ts";
import type { Reporter, StepEvent } from "./reporter.ts";
import { runCommand } from "./run_step.ts";

type Emit = (event: StepEvent) => void;

/** Seconds of an image's `created`; 0 where it has none, or one before 1970. */
export function createdSeconds(created: string | undefined): number {
  const ms = Date.parse(created ?? "");
  return Number.isNaN(ms) ? 0 : Math.max(0, Math.floor(ms / 1000));
}

export class Solver {
  #engine: Engine;
  #build: BuildState;
  #reporter: Reporter;
  #abort = new AbortController();
  #signal: AbortSignal;
  #keys = new Map<Vertex, Promise<string>>();
  #links = new Map<string, string>();
  #contextKeys = new Map<string, Promise<string>>();
  #outcomes = new Map<Vertex, Promise<Outcome>>();
  #flights: Flight<Outcome>[] = [];
  /** Sets apart what a build without cache makes from what others may share. */
  #space: string;

  constructor(engine: Engine, build: BuildState, reporter: Reporter, signal: AbortSignal) {
    this.#engine = engine;
    this.#build = build;
    this.#reporter = reporter;
    this.#signal = AbortSignal.any([signal, this.#abort.signal]);
    this.#space = build.noCache ? ` ${crypto.randomUUID()}` : "";
  }

  /** The results of these vertices. Throws what failed first; nothing of this build runs on by then. */
  async solve(vertices: Vertex[]): Promise<Map<Vertex, Outcome>> {
    let first: { error: unknown } | undefined;
    const results = new Map<Vertex, Outcome>();
    await Promise.all(vertices.map(async (vertex) => {
      try {
        results.set(vertex, await this.#outcome(vertex));
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

  /** What was found out on the way: for caches that other machines import. Only once it is solved. */
  async knowledge(): Promise<{ keys: Map<Vertex, string>; links: ReadonlyMap<string, string> }> {
    const keys = new Map<Vertex, string>();
    for (const [vertex, key] of this.#keys) keys.set(vertex, await key);
    return { keys, links: this.#links };
  }

  /** Settles when no step that this build began needs its context any more. */
  async released(): Promise<void> {
    await Promise.all(this.#flights.flatMap((one) => one.joined ? [] : one.ended));
  }

  /** True where {@linkcode released} has something to wait for: another build shares a step of this one. */
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

  /** Ends the build; the error names the vertex where it arose first, not those that needed it. */
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
      this.#reporter.done(vertex.id, "cached", vertex.kind !== "image");
      return hit;
    }
    const foreign = this.#build.noCache ? undefined : this.#build.imported?.step(key);
    const needed = foreign && vertex.kind !== "image" ? [vertex.base] : inputs(vertex);
    await Promise.all(
      needed.map((input) => typeof input === "string" ? input : this.#outcome(input)),
    );
    this.#signal.throwIfAborted();
    const flight = this.#engine.flights.join(
      key + this.#space,
      (signal, emit) =>
        foreign && vertex.kind !== "image"
          ? this.#fetch(vertex, key, foreign, signal, emit)
          : this.#perform(vertex, key, signal, emit),
      (event) => this.#reporter.step(vertex.id, event),
      this.#signal,
    );
    this.#flights.push(flight);
    const outcome = await flight.result;
    const ran = outcome.ran && !flight.joined;
    this.#reporter.done(vertex.id, ran ? "ran" : "cached", vertex.kind !== "image");
    return outcome;
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
    const { epoch } = this.#build;
    switch (vertex.kind) {
      case "image":
        return imageKey(vertex);
      case "workdir":
        return workdirKey(vertex, await this.#sourceKey(vertex.base), epoch);
      case "copy": {
        const [base, content] = await Promise.all([
          this.#sourceKey(vertex.base),
          this.#contentKey(vertex),
        ]);
        return copyKey(vertex, base, content, epoch);
      }
      case "run":
        return await this.#runKey(vertex);
    }
  }

  async #runKey(vertex: RunVertex): Promise<string> {
    const found = new Map<string, string>();
    const name = (from: Source, path: string) =>
      from === "context" ? `context ${path}` : typeof from === "string" ? from : from.id;
    await Promise.all(vertex.mounts.map(async (mount) => {
      if (mount.type !== "bind") return;
      const key = mount.from === "context"
        ? await this.#contextKey(mount.source)
        : await this.#sourceKey(mount.from);
      found.set(name(mount.from, mount.source), key);
    }));
    const base = await this.#sourceKey(vertex.base);
    const inputOf = (from: Source, path: string) => found.get(name(from, path))!;
    return runKey(vertex, base, inputOf, this.#build.epoch);
  }

  /** Content of a path of the context that a mount binds. */
  #contextKey(path: string): Promise<string> {
    let known = this.#contextKeys.get(path);
    if (!known) {
      const { tree } = this.#build.context;
      known = contentKey(tree, select(tree, path, false), { signal: this.#signal });
      this.#contextKeys.set(path, known);
    }
    return known;
  }

  /**
   * What a COPY copies. Of another stage that is known only when it is there; once it was, a link leads
   * from the stage's key to it, and the stage need not run to know it again.
   */
  async #contentKey(vertex: CopyVertex): Promise<string> {
    if (vertex.from === "context" || vertex.from === "scratch") {
      if (vertex.sources.length === 0) return SCRATCH_KEY;
      return await this.#withSource(vertex, undefined, async (tree) => {
        const ignore = vertex.from === "context" ? this.#build.context.ignore : undefined;
        return await pickedContent(tree, vertex, pick(tree, vertex, ignore), this.#signal);
      });
    }
    const link = copyLinkKey(vertex, await this.#key(vertex.from));
    const known = this.#build.noCache ? undefined : await this.#link(link);
    if (known !== undefined) {
      this.#links.set(link, known);
      return known;
    }
    const from = await this.#outcome(vertex.from);
    const content = await this.#withSource(
      vertex,
      from,
      (tree) => pickedContent(tree, vertex, pick(tree, vertex), this.#signal),
    );
    await this.#engine.records.putLink(link, content);
    this.#links.set(link, content);
    return content;
  }

  /** Known here, or to a cache of another machine. */
  async #link(link: string): Promise<string | undefined> {
    const { records } = this.#engine;
    const own = await records.link(link);
    if (own !== undefined) return own;
    const foreign = this.#build.imported?.link(link);
    if (foreign !== undefined) await records.putLink(link, foreign);
    return foreign;
  }

  async #withSource<T>(
    vertex: CopyVertex,
    from: Outcome | undefined,
    work: (tree: Tree) => Promise<T>,
  ): Promise<T> {
    if (vertex.from === "context") return await work(this.#build.context.tree);
    await using view = await this.#engine.workspace.view(from?.snapshot);
    return await work({ root: view.root, ownersKept: true });
  }

  async #lookup(vertex: Vertex, key: string): Promise<Outcome | undefined> {
    if (vertex.kind === "image") {
      if (key === SCRATCH_KEY) return { key, reference: this.#imageTime(vertex), ran: false };
      return undefined;
    }
    if (this.#build.noCache) return undefined;
    const record = await this.#engine.records.find(key);
    return record &&
      { key, snapshot: record.snapshot, reference: record.reference, record, ran: false };
  }

  #imageTime(vertex: ImageVertex): number {
    return this.#build.epoch ?? createdSeconds(vertex.image.config.created);
  }

  /** What a finished input gave; only called for inputs that were awaited. */
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
    // Another build may have finished the same step since the first look.
    const late = await this.#lookup(vertex, key);
    if (late) return late;
    return await this.#engine.slots.run(async () => {
      emit({ type: "start" });
      return await this.#execute(vertex, key, signal, emit);
    }, signal);
  }

  /** A step's layer from another machine's cache; where that cannot be had, the step itself. */
  async #fetch(
    vertex: Exclude<Vertex, ImageVertex>,
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
      const record = { version: 1 as const, key, snapshot, reference: step.reference, blobs };
      await records.put(record);
      return { key, snapshot, reference: step.reference, record, ran: false };
    } catch (error) {
      signal.throwIfAborted();
      this.#reporter.warning(
        `${vertex.text}: the imported cache is of no use: ${(error as Error).message}`,
        vertex.line,
      );
    }
    await Promise.all(inputs(vertex).map((input) => this.#outcome(input)));
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
    const snapshot = await this.#engine.unpack(vertex.image, { onProgress, signal });
    return { key, snapshot, reference: this.#imageTime(vertex), ran: fetched };
  }

  async #execute(
    vertex: Exclude<Vertex, ImageVertex>,
    key: string,
    signal: AbortSignal,
    emit: Emit,
  ): Promise<Outcome> {
    const { workspace, records } = this.#engine;
    const base = await this.#resultOf(vertex.base);
    await using mounted = await workspace.writable(base?.snapshot);
    let reference = base?.reference ?? this.#build.epoch ?? 0;
    if (vertex.kind === "workdir") await runWorkdir(vertex, mounted.root);
    else if (vertex.kind === "copy") {
      const latest = await this.#copy(vertex, mounted.root, signal);
      reference = this.#build.epoch ?? Math.max(reference, latest);
    } else {
      const outcomes = new Map<Source, Outcome | undefined>();
      for (const mount of vertex.mounts) {
        if (mount.type === "tmpfs") continue;
        const outcome = await this.#resultOf(mount.from);
        outcomes.set(mount.from, outcome);
        if (mount.type === "bind") reference = Math.max(reference, outcome?.reference ?? 0);
      }
      const run = { outcomeOf: (from: Source) => outcomes.get(from), reference };
      await runCommand(this.#engine, this.#build, vertex, mounted.root, run, emit, signal);
    }
    signal.throwIfAborted();
    const snapshot = await mounted.commit(reference, signal);
    const record = { version: 1 as const, key, snapshot, reference };
    await records.put(record);
    return { key, snapshot, reference, record, ran: true };
  }

  async #copy(vertex: CopyVertex, root: string, signal: AbortSignal): Promise<number> {
    const from = await this.#resultOf(vertex.from);
    await using folder = await this.#engine.workspace.temporary();
    return await this.#withSource(vertex, from, (tree) => {
      const picked = pick(tree, vertex);
      return runCopy(vertex, root, tree, picked, folder.path, signal);
    });
  }
}

/** The part of a digest that people compare. */
const short = (digest: Digest) => digest.slice(digest.indexOf(":") + 1).slice(0, 12);
