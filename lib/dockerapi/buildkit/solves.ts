/**
 * Solves by their refs. A client calls Solve and Status at the same time, and where it brings the frontend's request
 * by the gateway, that too: each finds the solve by the ref that it names, whichever comes first.
 */
import { SvcError } from "../../base/errors.ts";
import type { StatusResponse } from "./control_api.ts";

/** Milliseconds for which one part waits for the others, and for which an ended solve is remembered. */
const PATIENCE_MS = 30_000;
/** Messages that a late reader of the status still gets. */
const MAX_KEPT = 20_000;

export class SolveRun<Request> {
  /** What Control.Solve asked for. */
  readonly request = Promise.withResolvers<Request>();
  /** How it ended for the client that brings the frontend: it returns a result, or its failure. */
  readonly returned = Promise.withResolvers<void>();
  readonly #told: StatusResponse[] = [];
  #over = false;
  #wake = Promise.withResolvers<void>();

  constructor() {
    // Nobody may be waiting for them.
    this.request.promise.catch(() => {});
    this.returned.promise.catch(() => {});
  }

  tell(message: StatusResponse | undefined): void {
    if (!message) return;
    if (this.#told.length < MAX_KEPT) this.#told.push(message);
    this.#signal();
  }

  /** There will be no more to tell. */
  end(): void {
    this.#over = true;
    this.#signal();
  }

  #signal(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  /** All that was told and will be, to the end. */
  async *status(signal: AbortSignal): AsyncGenerator<StatusResponse> {
    // All who wait look again.
    const look = () => this.#signal();
    signal.addEventListener("abort", look, { once: true });
    try {
      for (let at = 0; !signal.aborted;) {
        const wake = this.#wake.promise;
        while (at < this.#told.length) yield this.#told[at++];
        if (this.#over) return;
        await wake;
      }
    } finally {
      signal.removeEventListener("abort", look);
    }
  }
}

export class Solves<Request> {
  readonly #runs = new Map<string, SolveRun<Request>>();

  /** The run of that ref, which this call may be the first to name. */
  get(ref: string): SolveRun<Request> {
    let run = this.#runs.get(ref);
    if (!run) {
      this.#runs.set(ref, run = new SolveRun());
      const late = setTimeout(() => {
        const why = `Cannot solve ${ref}: nobody asked for it`;
        this.#runs.get(ref)?.request.reject(new SvcError("not_found", why));
        this.#forget(ref);
      }, PATIENCE_MS);
      Deno.unrefTimer(late);
      const known = () => clearTimeout(late);
      run.request.promise.then(known, known);
    }
    return run;
  }

  /** Ends the run: after a while nobody finds it any more. */
  end(ref: string): void {
    this.get(ref).end();
    Deno.unrefTimer(setTimeout(() => this.#forget(ref), PATIENCE_MS));
  }

  #forget(ref: string): void {
    this.#runs.get(ref)?.end();
    this.#runs.delete(ref);
  }
}
