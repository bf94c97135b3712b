/** The phases of a server from start to end; readiness and draining use them. */

export class Lifecycle {
  #phase: "starting" | "serving" | "draining" = "starting";
  #stopping = new AbortController();
  #inFlight = 0;
  #idle: (() => void)[] = [];

  get phase(): "starting" | "serving" | "draining" {
    return this.#phase;
  }

  /** Aborts when draining begins: streams without an end of their own (followed logs, exec) end on it. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  serving(): void {
    if (this.#phase === "starting") this.#phase = "serving";
  }

  drain(): void {
    if (this.#phase === "draining") return;
    this.#phase = "draining";
    this.#stopping.abort(new DOMException("the server is shutting down", "AbortError"));
  }

  /** Counts work that draining waits for; call the result once, when the work ends. */
  begin(): () => void {
    this.#inFlight++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      if (--this.#inFlight === 0) { for (const resolve of this.#idle.splice(0)) resolve(); }
    };
  }

  /** True when no work is in flight any more, false when `ms` passed first. */
  async idle(ms: number): Promise<boolean> {
    if (this.#inFlight === 0) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), ms);
    this.#idle.push(() => resolve(true));
    const done = await promise;
    clearTimeout(timer);
    return done;
  }
}

/** Milliseconds that everything after the grace may take. */
const END_MS = 20_000;
/** Milliseconds to end for a server that is still starting, or that got a second signal. */
const PROMPT_MS = 5_000;

export interface EndOptions {
  first: AbortSignal;
  second: AbortSignal;
  /** Milliseconds that requests in flight have. */
  graceMs: number;
}

/** After the first signal, calls `end` in time even if something hangs, such as a thread in the kernel. */
export function endInTime(
  lifecycle: Lifecycle,
  { first, second, graceMs }: EndOptions,
  end: () => void,
): void {
  const within = (ms: number) => Deno.unrefTimer(setTimeout(end, ms));
  const after = (signal: AbortSignal, then: () => void) =>
    signal.aborted ? then() : signal.addEventListener("abort", then, { once: true });
  after(first, () => within(lifecycle.phase === "starting" ? PROMPT_MS : graceMs + END_MS));
  after(second, () => within(PROMPT_MS));
}
