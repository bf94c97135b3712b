/** Makes plans in Workers, off the event loop, with limits on time and memory. */
import { asSvcError, SvcError } from "../../base/errors.ts";
import { type BoundedWorker, startBoundedWorker } from "../../base/worker.ts";
import { WORKER_IDLE_MS } from "../../base/worker_pool.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import { gitTree } from "../context/git_tree.ts";
import { httpTree } from "../context/http_tree.ts";
import { LIMITS, tooMuch } from "../parse/limits.ts";
import type { BuildPlan, TreeSource } from "./graph.ts";
import type { PlannedContext } from "./plan.ts";
import { type FromPlanWorker, type PlanJob, type ToPlanWorker, wireError } from "./plan_wire.ts";
import type { PlannedTree } from "./planned_tree.ts";

/** Milliseconds between two looks at a Worker that has worked for almost as long as it may. */
const LOOK_MS = 1000;

export interface PlanningOptions {
  images: Pick<ImageResolver, "resolve">;
  /** The trees for the job's named contexts. */
  contexts: ReadonlyMap<string, PlannedContext>;
  /** Asks the registry again what a tag means. */
  pull?: boolean;
  signal: AbortSignal;
}

export class Planners implements Disposable {
  /** A Worker that waits for the next plan: starting one takes longer than most plans. */
  #idle: BoundedWorker | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  readonly #limits: { time: number; megabytes: number };

  constructor(limits: { time: number; megabytes: number } = LIMITS) {
    this.#limits = limits;
  }

  /**
   * One plan per platform. Throws what `planBuild` throws, and `dockerfile_invalid` with the line where
   * planning exceeds its time or memory.
   */
  async plan(job: PlanJob, options: PlanningOptions): Promise<BuildPlan[]> {
    const waiting = this.#takeIdle();
    const worker = waiting ?? await startBoundedWorker("plan", this.#limits.megabytes);
    worker.ref();
    const planning = new Planning(worker, job, options, this.#limits);
    try {
      const plans = await planning.done;
      this.#give(worker);
      return plans;
    } catch (error) {
      if (planning.ended) this.#give(worker);
      else await worker.terminate();
      throw error;
    } finally {
      planning[Symbol.dispose]();
    }
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    this.#takeIdle()?.terminate();
  }

  #takeIdle(): BoundedWorker | undefined {
    clearTimeout(this.#timer);
    const waiting = this.#idle;
    this.#idle = undefined;
    return waiting;
  }

  #give(worker: BoundedWorker): void {
    if (this.#idle || this.#closed) return void worker.terminate();
    this.#idle = worker;
    worker.unref();
    this.#timer = setTimeout(() => this.#takeIdle()?.terminate(), WORKER_IDLE_MS);
    Deno.unrefTimer(this.#timer);
  }
}

/** Milliseconds of processor time of a Worker: how long others kept the processor is not in it. */
async function worked(worker: BoundedWorker): Promise<number> {
  const { user, system } = await worker.cpuUsage();
  return (user + system) / 1000;
}

/** One job of a Worker. */
class Planning implements Disposable {
  #worker: BoundedWorker;
  #job: PlanJob;
  #options: PlanningOptions;
  #answer = Promise.withResolvers<BuildPlan[]>();
  /** True once the Worker itself has answered: it can take another job. */
  ended = false;
  #line = new Int32Array(new SharedArrayBuffer(4));
  /** Images that the Worker asked for, by the number of the request. */
  #images = new Map<number, ResolvedImage>();
  #open = 0;
  /** Milliseconds that the Worker may work, that it had worked before, and that it has worked since. */
  readonly #limit: number;
  readonly #before: Promise<number>;
  #worked = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    worker: BoundedWorker,
    job: PlanJob,
    options: PlanningOptions,
    limits: { time: number },
  ) {
    this.#worker = worker;
    this.#job = job;
    this.#options = options;
    this.#limit = limits.time;
    this.#before = worked(worker);
    this.#before.catch(() => {/* the Worker has ended, which it tells itself */});
    // The Worker may fail before anybody awaits the answer.
    this.#answer.promise.catch(() => {});
    worker.on("message", this.#receive);
    worker.on("error", this.#failed);
    const { signal } = options;
    if (signal.aborted) this.#abort();
    signal.addEventListener("abort", this.#abort, { once: true });
    this.#post({ type: "plan", job, line: this.#line.buffer as SharedArrayBuffer });
    this.#run();
  }

  get done(): Promise<BuildPlan[]> {
    return this.#answer.promise;
  }

  [Symbol.dispose](): void {
    this.#stop();
    this.#options.signal.removeEventListener("abort", this.#abort);
    this.#worker.off("message", this.#receive);
    this.#worker.off("error", this.#failed);
  }

  #abort = () => this.#answer.reject(this.#options.signal.reason);

  #post(message: ToPlanWorker): void {
    this.#worker.postMessage(message);
  }

  /** Looks at the Worker from now on. It is let be while it waits for an image. */
  #run(): void {
    this.#lookAfter(Math.max(1, this.#limit - this.#worked));
  }

  #rest(): void {
    this.#stop();
    void this.#look().catch(() => {/* the Worker has ended, which it tells itself */});
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #lookAfter(ms: number): void {
    const timer = this.#timer = setTimeout(async () => {
      const goesOn = await this.#look().catch(() => false);
      if (this.#timer !== timer) return;
      if (goesOn) this.#lookAfter(Math.max(LOOK_MS, this.#limit - this.#worked));
      else this.#answer.reject(this.#tooMuch());
    }, ms);
  }

  /** False: it has worked for as long as it may, or no more since the last look: it ran out of memory. */
  async #look(): Promise<boolean> {
    const before = this.#worked;
    this.#worked = await worked(this.#worker) - await this.#before;
    return this.#worked > before && this.#worked < this.#limit;
  }

  #tooMuch(): SvcError {
    const line = Math.max(1, Atomics.load(this.#line, 0));
    return tooMuch(this.#job.file, line, "reading it takes too long, or too much memory");
  }

  #failed = (error: Error) => {
    this.#answer.reject(
      /memory limit/i.test(error.message)
        ? this.#tooMuch()
        : new SvcError("internal", `Cannot plan the build: the worker failed: ${error.message}`, {
          cause: error,
        }),
    );
  };

  #receive = (message: FromPlanWorker) => {
    switch (message.type) {
      case "resolve":
        return void this.#resolve(message);
      case "planned":
        this.ended = true;
        try {
          for (const plan of message.plans) this.#complete(plan);
          this.#answer.resolve(message.plans);
        } catch (error) {
          this.#answer.reject(error);
        }
        return;
      case "failed": {
        this.ended = true;
        const { code, message: text, help, detail } = message.error;
        this.#answer.reject(new SvcError(code, text, { help, detail }));
      }
    }
  };

  async #resolve(
    { ask, name, platform }: Extract<FromPlanWorker, { type: "resolve" }>,
  ): Promise<void> {
    if (this.#open++ === 0) this.#rest();
    const { images, pull, signal } = this.#options;
    try {
      const image = await images.resolve(name, { platform, ...(pull && { pull }), signal });
      this.#images.set(ask, image);
      this.#post({ type: "image", ask, name: image.name, config: image.config });
    } catch (error) {
      if (signal.aborted) return;
      this.#post({ type: "noImage", ask, error: wireError(asSvcError(error)) });
    } finally {
      if (--this.#open === 0 && !signal.aborted) this.#run();
    }
  }

  /** Replaces the Worker's stand-ins for images and trees by the real objects. */
  #complete(plan: BuildPlan): void {
    for (const vertex of plan.vertices) {
      if (vertex.kind === "image") vertex.image = this.#imageOf(vertex.image);
      else if (vertex.kind === "tree") vertex.tree = this.#treeOf(vertex.tree as PlannedTree);
    }
    if (plan.base) plan.base = this.#imageOf(plan.base);
  }

  #imageOf(planned: ResolvedImage): ResolvedImage {
    const { ask } = planned as unknown as { ask?: number };
    // Two vertices may have the same image, and so may a plan's base: a replaced image has no `ask`.
    return ask === undefined ? planned : this.#images.get(ask)!;
  }

  #treeOf({ spec }: PlannedTree): TreeSource {
    if (spec.kind === "git") return gitTree(spec.source);
    if (spec.kind === "http") return httpTree(spec.url, { checksum: spec.checksum });
    const context = this.#options.contexts.get(spec.name);
    if (!context || !("tree" in context)) {
      throw new SvcError("internal", `Cannot find the build context ${spec.name}`);
    }
    return context.tree;
  }
}
