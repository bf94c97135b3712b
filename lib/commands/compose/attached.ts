/** `svc compose up` without -d: shows the logs until the services have ended, or an interrupt ends them. */
import { SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";
import type { Io } from "../../base/terminal.ts";
import type { Client } from "../../client/client.ts";
import { sessionLogs } from "../../client/session_logs.ts";
import { stop } from "../../compose/down.ts";
import type { Hooks } from "../../compose/hooks.ts";
import {
  containersOf,
  isUp,
  nameOf,
  projectStates,
  type ServiceState,
} from "../../compose/state.ts";
import type { Report } from "../../compose/steps.ts";
import { AGAIN_MS, followEvents } from "../../compose/watch.ts";
import { stopHeeding } from "./hurry.ts";
import type { LogView } from "./log_view.ts";

/** Milliseconds to wait for the last lines after the services have ended. */
const LAST_LINES_MS = 2000;

export interface Attached {
  project: string;
  client: Client;
  io: Io;
  view: LogView;
  /** Services whose logs are shown. */
  shown: ReadonlySet<string>;
  /** Which ends stop all others. */
  abort: "never" | "exit" | "failure";
  /** The service whose exit code is the command's. */
  exitCodeFrom?: string;
  timeoutMs?: number;
  hooks: Hooks;
  /** While it is true, services are being replaced: that all have ended means nothing. */
  holds?: () => boolean;
}

/** "web-1": the name in log lines, without the project's. */
export function shortName(state: ServiceState, instance: string): string {
  const name = nameOf(state, instance);
  return state.container === undefined ? name.replace(`${state.project}-`, "") : name;
}

/** What is known once the services are up. */
interface Running {
  /** Services whose end counts. */
  services: readonly string[];
  report: Report;
}

/** Follows services from the moment when they are up. */
export class AttachedRun {
  readonly #options: Attached;
  /** No more lines are waited for. */
  readonly #over = new AbortController();
  readonly #leave = new AbortController();
  readonly #following = new Map<string, Promise<void>>();
  readonly #ended = new Map<string, number>();
  #wake = () => {};
  #running: Running = { services: [], report: () => {} };

  constructor(options: Attached) {
    this.#options = options;
  }

  /** Shows the service's logs: all, or from a time or a number of last lines on. */
  follow(state: ServiceState, from: { since?: Date; tail?: number } = {}): void {
    const { client, view, shown } = this.#options;
    const { name } = state.status;
    if (!shown.has(state.service) || this.#following.has(name)) return;
    view.expect(state.status.instances.map(({ id }) => shortName(state, id)));
    const [over, signal] = [this.#over.signal, this.#leave.signal];
    this.#following.set(
      name,
      (async () => {
        for await (const frame of sessionLogs(client, name, { over, signal, ...from })) {
          view.frame(shortName(state, frame.instance), frame);
        }
      })().catch((error) => {
        if (!signal.aborted) view.notice(`svc: warning: ${(error as Error).message}`);
      }),
    );
  }

  /** The project's services that count, as they are now. */
  async #states(): Promise<ServiceState[]> {
    const { client, project } = this.#options;
    const { services } = this.#running;
    const all = await projectStates(client, project);
    return all.filter(({ service, oneOff }) => !oneOff && services.includes(service));
  }

  /** Tells ends that are new. Returns those of which no start follows. */
  #ends(states: readonly ServiceState[]): { service: string; code: number }[] {
    const { view } = this.#options;
    const ends: { service: string; code: number }[] = [];
    for (const state of states) {
      for (const { instance } of containersOf(state)) {
        const { id, exitCode = 0, restarts } = instance;
        if (isUp(instance) || instance.state === "created") {
          this.#ended.delete(id);
          continue;
        }
        if (this.#ended.get(id) !== restarts) {
          this.#ended.set(id, restarts);
          view.notice(`${shortName(state, id)} exited with code ${exitCode}`);
        }
        if (state.status.state !== "pending") ends.push({ service: state.service, code: exitCode });
      }
    }
    return ends;
  }

  /** Resolves with the end that decides, or undefined where all have ended by themselves. */
  async #untilEnd(): Promise<{ service: string; code: number } | undefined> {
    const { abort, exitCodeFrom, holds } = this.#options;
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const states = await this.#states().catch(away);
      if (states && !holds?.()) {
        const ends = this.#ends(states);
        const found = ends.find(({ service, code }) =>
          abort === "exit" || abort === "failure" && code !== 0 || service === exitCodeFrom
        );
        if (found) return found;
        const left = states.flatMap(containersOf).length;
        if (ends.length === left) return undefined;
      }
      await Promise.race([promise, sleep(AGAIN_MS, this.#leave.signal)]);
    }
  }

  /** Stops the services; an interrupt meanwhile kills them. */
  async #stop(hurry: boolean): Promise<void> {
    const { client, timeoutMs, hooks } = this.#options;
    const { report } = this.#running;
    const states = (await this.#states()).filter((state) =>
      state.status.instances.some(isUp) || state.status.state === "pending"
    );
    await stop(states, { client, report, timeoutMs: hurry ? 0 : timeoutMs, hooks });
  }

  /** Runs to the end; resolves to the exit code. */
  async run(running: Running): Promise<number> {
    this.#running = running;
    const { io, view, exitCodeFrom, abort } = this.#options;
    const interrupted = Promise.withResolvers<"interrupted">();
    const interrupt = () => interrupted.resolve("interrupted");
    io.signal.addEventListener("abort", interrupt, { once: true });
    if (io.signal.aborted) interrupt();
    followEvents(this.#options.client, this.#leave.signal, ({ type }) => {
      if (["died", "stopped", "removed", "started"].includes(type)) this.#wake();
    });
    try {
      const how = await Promise.race([this.#untilEnd(), interrupted.promise, view.broken]);
      if (how === "interrupted") {
        view.notice("Gracefully stopping... (press Ctrl+C again to force)");
        await this.#stopHeedingHurry();
        return (io.signal.reason as { exitCode?: number })?.exitCode ?? 130;
      }
      if (how && (abort !== "never" || exitCodeFrom !== undefined)) {
        view.notice("Aborting on container exit...");
        await this.#stopHeedingHurry();
      }
      return await this.#exitCode(how);
    } finally {
      io.signal.removeEventListener("abort", interrupt);
      await this.#end();
    }
  }

  #stopHeedingHurry(): Promise<void> {
    return stopHeeding(this.#options.io.hurry, (hurry) => this.#stop(hurry));
  }

  async #exitCode(how: { service: string; code: number } | undefined): Promise<number> {
    const { exitCodeFrom, abort } = this.#options;
    if (exitCodeFrom !== undefined) {
      const state = (await this.#states()).find(({ service }) => service === exitCodeFrom);
      return state?.status.instances[0]?.exitCode ?? 0;
    }
    return abort === "never" ? 0 : how?.code ?? 0;
  }

  /** Waits for the last lines, not for long. */
  async #end(): Promise<void> {
    this.#over.abort();
    const last = Promise.all(this.#following.values());
    const late = new AbortController();
    await Promise.race([last, sleep(LAST_LINES_MS, late.signal).catch(() => {})]);
    late.abort();
    await this.#options.view.flush();
    this.#leave.abort(new DOMException("the command is over", "AbortError"));
  }
}

/** A server that is away for a moment is waited for. */
function away(error: unknown): undefined {
  const passing = ["server_unreachable", "upstream_failed", "unavailable"];
  if (error instanceof SvcError && passing.includes(error.code)) return undefined;
  throw error;
}
