/** `fetch` with limits for every wait: for the answer's head, and for each next piece of its body. */

export interface Timeouts {
  /** Milliseconds to wait for an answer to a small request, connecting included. */
  answerMs: number;
  /** Milliseconds to wait for an answer to a request that moves data within the service. */
  workMs: number;
  /** Milliseconds between two pieces of an answer's body. */
  idleMs: number;
}

export const TIMEOUTS: Timeouts = { answerMs: 20_000, workMs: 180_000, idleMs: 30_000 };

/** Slowest upload that is accepted, in bytes per millisecond. */
const SLOWEST = 256;

/** Its name makes the SDKs' retry policies treat it as transient. */
export class StalledError extends Error {
  override readonly name = "TimeoutError";
}

/** The connection could not be made, or broke. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  /** Makes Amazon's SDK retry. */
  readonly $retryable = {};
}

/** The innermost reason of a failed `fetch`, whose own message is only "fetch failed". */
function reason(error: unknown): string {
  let at = error as Error;
  while (at.cause instanceof Error) at = at.cause;
  return at.message;
}

/** Fails with {@linkcode StalledError} where nothing comes for `idleMs`. Exported for its test. */
function limitIdle(
  body: ReadableStream<Uint8Array>,
  idleMs: number,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { promise, reject } = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        reject(new StalledError(`nothing came for ${idleMs} ms`));
      }, idleMs);
      try {
        const { value, done } = await Promise.race([reader.read(), promise]);
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        reader.cancel(error).catch(() => {/* its end is known */});
        throw error instanceof StalledError
          ? error
          : new ConnectionError(reason(error), { cause: error });
      } finally {
        clearTimeout(timer);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

export interface Outgoing {
  url: string;
  method: string;
  headers: Headers;
  body?: string | Uint8Array;
  /** The service moves data before it answers. */
  works?: boolean;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  reason: string;
  headers: Headers;
  /** Fails where no piece comes for `idleMs`. Absent: the answer has no body. */
  body?: ReadableStream<Uint8Array>;
}

/** Connections to one service. `close` ends idle ones. */
export class BoundedHttp {
  #client: Deno.HttpClient = Deno.createHttpClient({ poolMaxIdlePerHost: 32 });

  constructor(private readonly timeouts: Timeouts) {}

  /** Throws `StalledError`, `ConnectionError`, or the reason of `signal`. Redirects are not followed. */
  async send({ url, method, headers, body, works, signal }: Outgoing): Promise<Answer> {
    signal?.throwIfAborted();
    const size = body instanceof Uint8Array ? body.length : 0;
    const limit = works ? this.timeouts.workMs : this.timeouts.answerMs + size / SLOWEST;
    const stalled = new AbortController();
    const timer = setTimeout(() => {
      stalled.abort(new StalledError(`no answer for ${Math.round(limit)} ms`));
    }, limit);
    const stop = () => stalled.abort(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    headers.set("accept-encoding", "identity");
    try {
      const answer = await fetch(url, {
        method,
        headers,
        body: body as string | Uint8Array<ArrayBuffer> | undefined,
        redirect: "manual",
        client: this.#client,
        signal: stalled.signal,
      });
      return {
        status: answer.status,
        reason: answer.statusText,
        headers: answer.headers,
        ...(answer.body && { body: limitIdle(answer.body, this.timeouts.idleMs) }),
      };
    } catch (error) {
      if (stalled.signal.aborted) throw stalled.signal.reason;
      throw new ConnectionError(reason(error), { cause: error });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }

  close(): void {
    this.#client.close();
  }
}
