/** Sends the events of one build: announces each vertex once, bounds the output, counts the steps. */
import type { BuildEvent } from "../../api/build.ts";
import { SvcError } from "../../base/errors.ts";
import type { Vertex } from "../plan/graph.ts";

/** Most bytes of one vertex's output that are sent to the client. */
const OUTPUT_LIMIT = 2 << 20;

/** Most bytes of output of one build: what a client does not read is held in memory. */
const ALL_LIMIT = 128 << 20;

/** What a running step reports, to every build that waits for it. */
export type StepEvent =
  | { type: "start" }
  | { type: "output"; stream: "stdout" | "stderr"; text: string }
  | { type: "progress"; label: string; current: number; total?: number };

interface VertexState {
  started?: number;
  ended: boolean;
  output: number;
}

export class Reporter {
  #onEvent: (event: BuildEvent) => void;
  #states = new Map<string, VertexState>();
  #output = 0;
  ran = 0;
  cached = 0;

  constructor(onEvent: (event: BuildEvent) => void) {
    this.#onEvent = onEvent;
  }

  announce(vertex: Pick<Vertex, "id" | "name" | "stage" | "line">): void {
    this.#states.set(vertex.id, { ended: false, output: 0 });
    this.#onEvent({
      type: "vertex",
      id: vertex.id,
      name: vertex.name,
      ...(vertex.stage !== undefined && { stage: vertex.stage }),
      ...(vertex.line !== undefined && { line: vertex.line }),
    });
  }

  /** `rule`: name of the build check. */
  warning(message: string, line?: number, rule?: string): void {
    this.#onEvent({
      type: "warning",
      message,
      ...(line !== undefined && { line }),
      ...(rule !== undefined && { rule }),
    });
  }

  step(id: string, event: StepEvent): void {
    const state = this.#states.get(id)!;
    switch (event.type) {
      case "start":
        if (state.started !== undefined) return;
        state.started = performance.now();
        this.#onEvent({ type: "start", id, time: new Date().toISOString() });
        return;
      case "progress":
        this.#onEvent({ ...event, id });
        return;
      case "output": {
        if (this.#clipped(state)) return;
        state.output += event.text.length;
        this.#output += event.text.length;
        this.#onEvent({ ...event, id });
        const why = this.#clipped(state);
        if (!why) return;
        const text = `\n[output clipped: ${why} MiB]\n`;
        this.#onEvent({ type: "output", id, stream: "stderr", text });
      }
    }
  }

  #clipped({ output }: VertexState): string | undefined {
    if (output > OUTPUT_LIMIT) return `a step shows at most ${OUTPUT_LIMIT >> 20}`;
    return this.#output > ALL_LIMIT ? `a build shows at most ${ALL_LIMIT >> 20}` : undefined;
  }

  /** `counted`: the step counts in the result's `ran` or `cached`. */
  done(id: string, outcome: "ran" | "cached", counted: boolean): void {
    const state = this.#states.get(id)!;
    if (state.ended) return;
    state.ended = true;
    if (counted) this[outcome]++;
    if (state.started === undefined && outcome === "cached") {
      this.#onEvent({ type: "cached", id });
      return;
    }
    this.step(id, { type: "start" });
    this.#onEvent({
      type: "done",
      id,
      durationMs: Math.round(performance.now() - state.started!),
    });
  }

  failed(id: string, error: unknown): void {
    const state = this.#states.get(id)!;
    if (state.ended) return;
    state.ended = true;
    const message = error instanceof SvcError ? error.message : String(error);
    this.#onEvent({ type: "failed", id, message });
  }
}
