/** The streams that the server opens at one session's caller, over all connections of the session. */
import { SvcError } from "../../base/errors.ts";
import type { SessionCaller } from "../../wire/attached/callers.ts";
import type { Kind } from "../../wire/attached/kinds.ts";
import type { Fields } from "../../wire/attached/session.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";

/** A connection on which streams can be opened. */
export interface StreamOpener {
  /** Throws `unsupported` for a kind that the caller does not take. */
  open(kind: Kind, fields?: Fields): YamuxStream;
}

export class CallerStreams implements SessionCaller {
  readonly #deployment: string;
  readonly fail: SessionCaller["fail"];
  readonly #ended = new AbortController();
  #connection: StreamOpener | undefined;
  #connected = Promise.withResolvers<void>();

  constructor(deployment: string, fail: SessionCaller["fail"]) {
    this.#deployment = deployment;
    this.fail = fail;
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** The session's current connection; undefined: it is lost. */
  set connection(connection: StreamOpener | undefined) {
    if (!this.#connection && connection) this.#connected.resolve();
    else if (this.#connection && !connection) this.#connected = Promise.withResolvers();
    this.#connection = connection;
  }

  /** The session has ended: no stream is opened any more. */
  end(): void {
    this.#ended.abort(
      new SvcError(
        "unavailable",
        `Cannot ask the caller of ${this.#deployment}: its session ended`,
      ),
    );
  }

  async open(
    kind: Kind,
    fields: Fields = {},
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<YamuxStream> {
    const until = AbortSignal.any([this.ended, ...signal ? [signal] : []]);
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    aborted.catch(() => {/* told by the race */});
    const abort = () => reject(until.reason);
    until.addEventListener("abort", abort, { once: true });
    try {
      for (;;) {
        until.throwIfAborted();
        if (this.#connection) return this.#connection.open(kind, fields);
        await Promise.race([this.#connected.promise, aborted]);
      }
    } finally {
      until.removeEventListener("abort", abort);
    }
  }
}
