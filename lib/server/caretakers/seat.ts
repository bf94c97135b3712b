/** One instance's place among the caretakers: its session, what it reported, and the sockets that it made. */
import type { AgentFields, CaretakerReport } from "../../api/caretaker.ts";
import { fromProblem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import type { AgentConnect } from "../../deploy/caps.ts";
import type { CaredFor } from "../../deploy/caretakers.ts";
import type { Attached, Fields } from "../../wire/attached/session.ts";
import { LineReader } from "../../wire/lines.ts";
import { relay } from "../../wire/relay.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";

/** Bytes of a caretaker's line, at most. */
export const MAX_LINE = 64 * 1024;

export class Seat {
  readonly of: CaredFor;
  /** The session of the caretaker, once its roles have started. */
  #serving: Attached | undefined;
  /** Why a role did not start; until a caretaker serves. */
  #failure: SvcError | undefined;
  readonly #waiting = new Set<() => void>();
  /** Agents by the caretaker's name of their socket. */
  readonly #agents = new Map<string, AgentConnect>();
  /** The session that is here, serving or not yet. */
  session: Attached | undefined;

  constructor(of: CaredFor) {
    this.of = of;
  }

  get serving(): Attached | undefined {
    return this.#serving;
  }

  /** Throws why a role did not start. */
  requireNoFailure(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Resolves when something has changed; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const settle = (act: () => void) => {
        this.#waiting.delete(wake);
        signal.removeEventListener("abort", abort);
        act();
      };
      const wake = () => settle(resolve);
      const abort = () => settle(() => reject(signal.reason));
      this.#waiting.add(wake);
      signal.addEventListener("abort", abort, { once: true });
    });
  }

  /** A caretaker has come; an earlier one is hung up on. */
  sit(session: Attached): void {
    this.session?.drop("another connection of the caretaker took its place");
    this.session = session;
    this.#serving = undefined;
    void session.closed.then(() => {
      if (this.session !== session) return;
      this.session = this.#serving = undefined;
    });
  }

  /** Takes the report of this session's caretaker. */
  async report(session: Attached, stream: YamuxStream): Promise<void> {
    const said = await new LineReader(stream, MAX_LINE).line<CaretakerReport>();
    await stream.closeWrite();
    if (this.session !== session || !said) return;
    if ("failed" in said) {
      const { instance, deployment } = this.of;
      const { role, error } = said.failed;
      const cause = fromProblem(error);
      this.#failure = new SvcError(
        "deploy_failed",
        `Cannot deploy ${deployment}: the role ${role} of the companion of ${instance} did not start: ${cause.message}`,
        { cause, help: cause.help },
      );
    } else {
      this.#failure = undefined;
      this.#serving = session;
    }
    for (const wake of [...this.#waiting]) wake();
  }

  /** Connections to the socket lead to this agent until it is removed. */
  lead(socket: string, connect: AgentConnect): Disposable {
    this.#agents.set(socket, connect);
    return { [Symbol.dispose]: () => void this.#agents.delete(socket) };
  }

  /** Somebody in the workload has connected to a socket. */
  async joinAgent(stream: YamuxStream, fields: Fields): Promise<void> {
    const { socket } = fields as Partial<AgentFields>;
    const connect = typeof socket === "string" ? this.#agents.get(socket) : undefined;
    if (!connect) return stream.reset();
    await relay(stream, await connect());
  }
}
