/** The server's side of the caretakers beside its instances (lib/api/caretaker.ts has what travels). */
import type { AgentSocketLine, DialFields, Opened } from "../../api/caretaker.ts";
import { fromProblem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import type { AgentConnect, ForwardedAgent } from "../../deploy/caps.ts";
import type { CaredFor, Caretakers, Roles } from "../../deploy/caretakers.ts";
import { type Attached, isLost } from "../../wire/attached/session.ts";
import { datagrams } from "../../wire/datagrams.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { LineReader } from "../../wire/lines.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { MAX_LINE, Seat } from "./seat.ts";
import type { CaretakerTokens } from "./tokens.ts";

/** Milliseconds that a caretaker which is away is waited for: it comes back by itself. */
const AWAY_MS = 10_000;

/** Milliseconds for an attached caretaker to show that it is alive, when another one comes in its name. */
const ALIVE_MS = 2000;

export interface CaretakersOptions {
  /** Absent: no caretaker may attach. */
  tokens?: CaretakerTokens;
  /** SVC_AGENT_IMAGE. */
  image?: string;
  /** SVC_ADVERTISE_URL. */
  url?: string;
}

export class ServerCaretakers implements Caretakers {
  readonly #options: CaretakersOptions;
  readonly #seats = new Map<string, Seat>();

  constructor(options: CaretakersOptions) {
    this.#options = options;
  }

  requireImage(attempt: string): string {
    const { image, url } = this.#options;
    const missing = [
      ...image === undefined ? ["SVC_AGENT_IMAGE"] : [],
      ...url === undefined ? ["SVC_ADVERTISE_URL"] : [],
    ];
    if (missing.length === 0) return image!;
    throw new SvcError(
      "prerequisite_missing",
      `Cannot ${attempt}: a companion needs ${
        missing.join(" and ")
      }, which the server does not have`,
      {
        help:
          "set SVC_AGENT_IMAGE to an image that `svc image agent` made, and SVC_ADVERTISE_URL to " +
          "this server's URL as workloads reach it",
      },
    );
  }

  expect(of: CaredFor): void {
    if (!this.#seats.has(of.key)) this.#seats.set(of.key, new Seat(of));
  }

  environment({ key }: CaredFor, roles: Roles): Record<string, string> {
    const { url, tokens } = this.#options;
    if (!tokens) throw new Error("a companion is made without a server that it could attach to");
    const document = { version: 1, server: { url, instance: key }, roles };
    return {
      SVC_CARETAKER_CONFIG: JSON.stringify(document),
      SVC_CARETAKER_TOKEN: tokens.mint(key),
    };
  }

  forget(key: string): void {
    const seat = this.#seats.get(key);
    this.#seats.delete(key);
    seat?.session?.fail(gone(key));
  }

  serves(key: string): boolean {
    return this.#seats.get(key)?.serving !== undefined;
  }

  async started(key: string, signal: AbortSignal): Promise<void> {
    for (let seat = this.#seat(key); !seat.serving; await seat.changed(signal)) {
      seat.requireNoFailure();
      seat = this.#seat(key);
    }
  }

  /** Throws `not_found`. */
  #seat(key: string): Seat {
    const seat = this.#seats.get(key);
    if (seat) return seat;
    throw gone(key);
  }

  /** The session that serves. Waits for one that is away. Throws `unavailable`. */
  async #serving(key: string, attempt: string, signal?: AbortSignal): Promise<Attached> {
    const seat = this.#seat(key);
    const limit = AbortSignal.timeout(AWAY_MS);
    const both = signal ? AbortSignal.any([signal, limit]) : limit;
    while (!seat.serving) {
      await seat.changed(both).catch(() => {
        signal?.throwIfAborted();
        throw new SvcError(
          "unavailable",
          `${attempt}: the companion of ${seat.of.instance} is away`,
          {
            help: "see the companion's log: it reaches this server at SVC_ADVERTISE_URL",
          },
        );
      });
    }
    return seat.serving;
  }

  /** Opens a stream, and reads the caretaker's first line. A connection that is lost meanwhile is waited for. */
  async #ask<Line extends Opened | AgentSocketLine>(
    key: string,
    open: (session: Attached) => YamuxStream,
    { attempt, signal }: { attempt: string; signal?: AbortSignal },
  ): Promise<{ stream: YamuxStream; lines: LineReader; answer: Extract<Line, { ok: true }> }> {
    for (;;) {
      const session = await this.#serving(key, attempt, signal);
      try {
        const stream = open(session);
        const lines = new LineReader(stream, MAX_LINE);
        return { stream, lines, answer: await answerOf<Line>(stream, lines, signal) };
      } catch (error) {
        if (!isLost(error)) throw error;
        // Its end is about to be told: then it serves no more.
        await session.closed;
      }
    }
  }

  async dial(
    key: string,
    port: number,
    protocol: "tcp" | "udp",
    signal?: AbortSignal,
  ): Promise<Duplex> {
    const { instance } = this.#seat(key).of;
    const attempt = `Cannot connect to port ${port} of ${instance}`;
    const { stream, lines } = await this.#ask<Opened>(
      key,
      (session) => session.open("dial", { port, protocol } satisfies DialFields),
      { attempt, signal },
    );
    const joined: Duplex = {
      read: () => lines.read(),
      write: (bytes) => stream.write(bytes),
      closeWrite: () => stream.closeWrite(),
      reset: () => stream.reset(),
    };
    return protocol === "udp" ? datagrams(joined) : joined;
  }

  async forwardAgent(
    key: string,
    connect: AgentConnect,
    signal?: AbortSignal,
  ): Promise<ForwardedAgent> {
    const seat = this.#seat(key);
    const attempt = `Cannot forward an SSH agent to ${seat.of.instance}`;
    const { stream, lines, answer: { path, socket } } = await this.#ask<AgentSocketLine>(
      key,
      (session) => session.open("agent"),
      { attempt, signal },
    );
    const led = seat.lead(socket, connect);
    return {
      path,
      async [Symbol.asyncDispose]() {
        led[Symbol.dispose]();
        await stream.closeWrite().catch(() => {/* the caretaker is gone, and its sockets */});
        // The caretaker ends its direction once the socket is gone.
        await lines.read().catch(() => {/* so is the connection */});
      },
    };
  }

  /**
   * The seat of a caretaker with this token, which says that it is for `instance`. Throws `unauthorized`, `denied` for
   * the token of another instance, `not_found` for one that is gone, and `conflict` while its caretaker is attached.
   */
  async admit(token: string | undefined, instance: string): Promise<Seat> {
    const key = token === undefined ? undefined : this.#options.tokens?.keyOf(token);
    if (key === undefined) {
      throw new SvcError(
        "unauthorized",
        "Cannot attach the caretaker: its token is not of this server",
      );
    }
    if (key !== instance) {
      throw new SvcError(
        "denied",
        `Cannot attach the caretaker of ${instance}: the token is for another instance`,
      );
    }
    const seat = this.#seat(key);
    if (seat.session && await isAlive(seat.session)) {
      throw new SvcError(
        "conflict",
        `Cannot attach the caretaker of ${seat.of.instance}: it is attached already`,
        { help: "a second one with its token is not served; the token may have been copied" },
      );
    }
    return seat;
  }
}

const gone = (key: string) =>
  new SvcError("not_found", `Cannot use the caretaker of ${key}: there is no such instance`);

/** The caretaker's first line. Throws the error that it has, and the signal's reason. */
async function answerOf<Line extends Opened | AgentSocketLine>(
  stream: YamuxStream,
  lines: LineReader,
  signal?: AbortSignal,
): Promise<Extract<Line, { ok: true }>> {
  const abort = () => stream.reset();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    signal?.throwIfAborted();
    const line = await lines.line<Line>();
    if (line?.ok === true) return line as Extract<Line, { ok: true }>;
    throw line ? fromProblem(line.error) : new Error("the companion said nothing");
  } catch (error) {
    stream.reset();
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

/** Whether the other end answers in time. */
async function isAlive(session: Attached): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ALIVE_MS);
  try {
    const answered = session.received().then(() => true, () => false);
    return await Promise.race([answered, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
