/** A caretaker: starts its roles, and keeps a connection to its server for them. */
import type { CaretakerReport } from "../api/caretaker.ts";
import { toProblem } from "../api/problem.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/sleep.ts";
import type { Kind } from "../wire/attached/kinds.ts";
import type { Attached, Handler } from "../wire/attached/session.ts";
import { writeLine } from "../wire/lines.ts";
import type { CaretakerConfig } from "./config.ts";
import type { RoleParts, StartedRole } from "./role.ts";
import { type WantedRole, wantedRoles } from "./roles.ts";

/** Milliseconds between two attempts to connect: the first pause, which doubles up to the longest. */
const PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

/** Milliseconds that the server may take to hear that a role could not start. */
const REPORT_MS = 10_000;

/** Streams that the server may have open at once: each is a connection or a socket. */
export const CARETAKER_STREAMS = 1024;

/** Errors that another attempt would meet again: this caretaker is not wanted, or not of the server's time. */
const FINAL = new Set(["unauthorized", "denied", "not_found", "unsupported"]);

export type Takes = Partial<Record<Kind, Handler>>;

export interface CaretakerOptions {
  config: CaretakerConfig;
  /** Of this build, for the server. */
  version: string;
  /** Opens a session to the server of the document; absent where it names none. */
  connect?: (takes: Takes, signal: AbortSignal) => Promise<Attached>;
  log: Logger;
  /** Ends the caretaker. */
  signal: AbortSignal;
}

export type CaretakerState = "starting" | "connecting" | "ready";

export class Caretaker {
  readonly #options: CaretakerOptions;
  readonly #roles: WantedRole[];
  #session: Attached | undefined;
  #state: CaretakerState = "starting";
  /** Roles that need a connection to start, until they have had one. */
  #waiting: { name: string; attached: () => Promise<void> }[] = [];
  /** Such a role could not start. */
  #failed = false;

  /** Throws `config_invalid` or `not_in_build` for a role that cannot be had; nothing is started yet. */
  constructor(options: CaretakerOptions) {
    this.#options = options;
    this.#roles = wantedRoles(options.config);
  }

  /** What `svc caretaker check` is told. */
  status(): { state: CaretakerState; roles: string[] } {
    return { state: this.#state, roles: this.#roles.map(({ name }) => name) };
  }

  /** Runs until the signal aborts. Throws what keeps a role from starting, and what the server refuses for good. */
  async run(): Promise<void> {
    const { signal, connect } = this.#options;
    await using started = new AsyncDisposableStack();
    const takes: Takes = {};
    for (const role of this.#roles) {
      const one = started.use(await this.#start(role));
      Object.assign(takes, one.takes);
      if (one.attached) this.#waiting.push({ name: role.name, attached: () => one.attached!() });
    }
    if (connect) return await this.#stayConnected((signal) => connect(takes, signal));
    this.#state = "ready";
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async #start({ name, settings, load }: WantedRole): Promise<StartedRole> {
    const { log, signal } = this.#options;
    const parts: RoleParts = {
      open: (kind, fields) => {
        if (this.#session) return this.#session.open(kind, fields);
        throw new SvcError("unavailable", `Cannot serve ${name}: the server is away`);
      },
      log: log.with({ role: name }),
      signal,
    };
    try {
      return await (await load()).start(settings, parts);
    } catch (cause) {
      const error = asSvcError(cause, `Cannot start the role ${name}`);
      await this.#tell({ failed: { role: name, error: toProblem(error) } });
      throw error;
    }
  }

  /** Tells the server that a role failed, where that can be reached: the deploy then says why it failed. */
  async #tell(report: CaretakerReport): Promise<void> {
    const { connect, signal, log } = this.#options;
    if (!connect) return;
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(REPORT_MS)]);
      const session = await connect({}, limit);
      await this.#report(session, report);
      await session.close();
    } catch (error) {
      log.warn("the server was not told why a role did not start", { error });
    }
  }

  async #report(session: Attached, report: CaretakerReport): Promise<void> {
    const stream = session.open("caretaker");
    await writeLine(stream, report);
    await stream.closeWrite();
    await session.received();
  }

  async #startWaiting(session: Attached): Promise<void> {
    for (const { name, attached } of this.#waiting.splice(0)) {
      try {
        await attached();
      } catch (cause) {
        this.#failed = true;
        const error = asSvcError(cause, `Cannot start the role ${name}`);
        await this.#report(session, { failed: { role: name, error: toProblem(error) } });
        throw error;
      }
    }
  }

  async #stayConnected(connect: (signal: AbortSignal) => Promise<Attached>): Promise<void> {
    const { signal, log, version } = this.#options;
    const ready: CaretakerReport = {
      ready: { version, roles: this.#roles.map(({ name }) => name) },
    };
    this.#state = "connecting";
    for (let pause = PAUSE_MS; !signal.aborted;) {
      try {
        using session = await connect(signal);
        this.#session = session;
        await this.#startWaiting(session);
        await this.#report(session, ready);
        this.#state = "ready";
        pause = PAUSE_MS;
        log.info("attached to the server");
        await untilEnd(session, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (this.#failed || error instanceof SvcError && FINAL.has(error.code)) throw error;
        log.warn("cannot attach to the server yet", { error });
      } finally {
        this.#session = undefined;
        this.#state = "connecting";
      }
      await sleep(pause, signal).catch(() => {/* the caretaker ends */});
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }
}

/** Waits for the session's end. Throws its reason; closes it in good order where the signal aborts. */
async function untilEnd(session: Attached, signal: AbortSignal): Promise<void> {
  const stop = () => void session.close();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    const reason = await session.closed;
    if (reason) throw reason;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
