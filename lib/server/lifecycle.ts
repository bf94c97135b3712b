/** Where a server is between its start and its end; readiness and draining read and drive it. */

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

  /** Counts something that draining waits for; call the result once, at its end. */
  begin(): () => void {
    this.#inFlight++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      if (--this.#inFlight === 0) { for (const resolve of this.#idle.splice(0)) resolve(); }
    };
  }

  /** True when nothing is in flight any more, false when `ms` passed before. */
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

/** How long all that comes after the grace may take, in milliseconds. */
const END_MS = 20_000;
/** How long a server may take that is starting, or that is told a second time. */
const PROMPT_MS = 5_000;

export interface EndOptions {
  first: AbortSignal;
  second: AbortSignal;
  /** Milliseconds that requests in flight have. */
  graceMs: number;
}

/** From the first signal on `end` is called in time, whatever still hangs: a thread in the kernel, say. */
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
