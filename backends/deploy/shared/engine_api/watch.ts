/**
 * What the engine's containers of this server do: their events, and from these their states, so that a status
 * asks the engine nothing and agrees with the events told before it. A lost engine is looked for until it is back.
 */
import type { InstanceChange, InstanceEvent } from "../../../../lib/api/deployment.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import { Semaphore } from "../../../../lib/base/mutex.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import { InstanceEvents } from "../../../../lib/deploy/instance_events.ts";
import type { Inspected } from "./inspect.ts";
import { DEPLOYMENT, REHEARSAL, REPLICA } from "./labels.ts";
import { instanceId } from "./record.ts";
import { Starts } from "./starts.ts";
import { Turns } from "./turns.ts";

/** Milliseconds until a lost engine is tried again. */
const PAUSE_MS = 1000;
/** Milliseconds that a start waits for an engine that does not answer. */
const FIRST_MS = 10_000;
/** Milliseconds that an event may be behind what it tells of. */
const LATE_MS = 5000;
/** Containers asked for at once. */
const AT_ONCE = 8;
/** Of an engine that has it: the end of a container is dealt with, and it is not started again. */
export const SETTLED = "cleanup";

/** What happened to a container, in Docker's words. */
export interface EngineEvent {
  /** "create", "start", "die", "oom", "stop", "destroy", "health_status: healthy". */
  Action: string;
  /** The attributes are the container's labels, and `exitCode` for a death. */
  Actor: { ID: string; Attributes: Record<string, string> };
  /** Seconds since 1970. */
  time: number;
  /** Nanoseconds since 1970, more than a number holds exactly. */
  timeNano?: number;
}

/** The engine's containers of this server. */
export interface WatchSource {
  /** What errors call the engine. */
  product: string;
  /** See {@linkcode EngineBehaviour}. */
  reasonsUntold?: true;
  lateEvents?: true;
  /** Resolves once the engine watches; the events end with the signal, and throw where it goes away. */
  events(signal: AbortSignal): Promise<AsyncIterable<EngineEvent>>;
  list(signal: AbortSignal): Promise<string[]>;
  /** Throws `not_found`. */
  inspect(container: string, signal?: AbortSignal): Promise<Inspected>;
  /** See {@linkcode EngineBehaviour.inspected}. */
  inspected?(found: Inspected, settled: boolean, before?: Inspected): Inspected;
  /** Called with each container as it is now. */
  seen?(found: Inspected): void;
}

export interface WatchOptions {
  /** `state` and the signal are the watch's. */
  source: (watch: Pick<EngineWatch, "state" | "closing">) => WatchSource;
  log: Logger;
}

export class EngineWatch {
  readonly events = new InstanceEvents();
  readonly starts = new Starts();
  readonly #log: Logger;
  readonly #known = new Map<string, Inspected>();
  readonly #turns = new Turns();
  /** Containers whose stop is not told: it belongs to a replacement, a removal or a restart. */
  readonly #quiet = new Set<string>();
  /** Containers whose death was not told since their start. */
  readonly #alive = new Set<string>();
  /** Those of them whose stop the engine has told already: Docker 28 now and then does so before the death. */
  readonly #stopped = new Set<string>();
  /** Containers that somebody has asked svc to stop, where the engine does not tell of stops. */
  readonly #stopping = new Set<string>();
  /** Containers on trial: whether they have died. */
  readonly #failed = new Map<string, boolean>();
  /** "die CONTAINER": who waits until it was told. */
  readonly #expected = new Map<string, PromiseWithResolvers<void>>();
  /** What was told of their health since their start. */
  readonly #health = new Map<string, string>();
  /** Exit codes of the last deaths. */
  readonly #exits = new Map<string, number>();
  readonly #closed = new AbortController();
  #live = false;
  #failure: unknown;
  #first = Promise.withResolvers<void>();
  #loop: Promise<void> | undefined;
  readonly #slots = new Semaphore(AT_ONCE);
  readonly #source: WatchSource;
  #connected: () => Promise<void> = () => Promise.resolve();
  #made: (deployment: string) => void = () => {};

  constructor({ source, log }: WatchOptions) {
    this.#log = log;
    this.#source = source(this);
  }

  /**
   * Resolves when the engine was found, or was not. `connected` is called each time the engine is there, once the
   * states are known; `made` with the deployment of each container that is made.
   */
  async open(
    connected: () => Promise<void>,
    made: (deployment: string) => void = () => {},
  ): Promise<void> {
    this.#connected = connected;
    this.#made = made;
    this.#loop = this.#run();
    const late = AbortSignal.any([AbortSignal.timeout(FIRST_MS), this.#closed.signal]);
    await Promise.race([this.#first.promise, sleep(2 * FIRST_MS, late).catch(() => {})]);
  }

  /** Aborts when the backend is disposed of. */
  get closing(): AbortSignal {
    return this.#closed.signal;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.events.end();
    await this.#loop;
  }

  /** Throws `unavailable` where the engine is not there. */
  requireLive(): void {
    if (this.#live) return;
    throw this.#failure ??
      new SvcError(
        "unavailable",
        `Cannot use ${this.#source.product}: no answer yet`,
      );
  }

  /** As of the last event that was told. Undefined: there is no such container of this server. */
  state(container: string): Inspected | undefined {
    return this.#known.get(container);
  }

  /** All containers of this server. */
  get all(): readonly Inspected[] {
    return [...this.#known.values()];
  }

  /** Asks the engine. Undefined: there is no such container. */
  look(
    container: string,
    signal?: AbortSignal,
    settled = false,
  ): Promise<Inspected | undefined> {
    return this.#slots.run(() => this.#look(container, settled, signal), signal);
  }

  async #look(
    container: string,
    settled: boolean,
    signal?: AbortSignal,
  ): Promise<Inspected | undefined> {
    using turn = this.#turns.begin(container);
    try {
      const raw = await this.#source.inspect(container, signal);
      if (turn.old) {
        return settled ? await this.#look(container, settled, signal) : this.#known.get(container);
      }
      turn.take();
      const found = this.#source.inspected?.(raw, settled, this.#known.get(container)) ?? raw;
      this.#known.set(container, found);
      this.#source.seen?.(found);
      return found;
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "not_found") throw error;
      this.#turns.end(container);
      this.#known.delete(container);
      return undefined;
    }
  }

  /** The next stop of these containers is not told, until their next start. */
  quiet(containers: readonly string[]): void {
    for (const container of containers) this.#quiet.add(container);
  }

  /**
   * Containers that the engine starts again while they are on trial: they fail with their first death, and what
   * comes after it is not told.
   */
  onTrial(container: string, trial: boolean): void {
    if (trial) this.#failed.set(container, false);
    else this.#failed.delete(container);
  }

  /** Somebody has asked for the stop of these containers. */
  stopping(containers: readonly string[]): void {
    if (!this.#source.reasonsUntold) return;
    for (const container of containers) {
      if (this.#known.get(container)?.State.Running) this.#stopping.add(container);
    }
  }

  /**
   * Called before a call that starts, ends or removes a container: what it gives waits until that was told. Who asks
   * for events after the call is then told nothing that was before.
   */
  expect(container: string, action: "start" | "die" | "destroy"): () => Promise<void> {
    const found = this.#known.get(container);
    const comes = action === "destroy"
      ? found
      : action === "die"
      ? found && found.State.Running && !found.State.Restarting
      : !found?.State.Running;
    if (!this.#source.lateEvents || !comes || !this.#live) return async () => {};
    const key = `${action} ${container}`;
    const told = this.#expected.get(key) ?? Promise.withResolvers<void>();
    this.#expected.set(key, told);
    return async () => {
      const done = new AbortController();
      await Promise.race([told.promise, sleep(LATE_MS, done.signal).catch(() => {})]);
      done.abort();
      this.#expected.delete(key);
    };
  }

  /** The exit code of the container's last death; undefined where the engine does not tell it soon. */
  async lastExit(container: string): Promise<number | undefined> {
    for (const until = performance.now() + LATE_MS; performance.now() < until;) {
      const code = this.#exits.get(container);
      if (code !== undefined) return code;
      await sleep(20);
    }
  }

  watch(signal: AbortSignal): AsyncIterable<InstanceEvent> {
    const events = this.events.watch(signal);
    const ready = this.#first.promise;
    const requireLive = () => this.requireLive();
    return (async function* () {
      await ready;
      if (!signal.aborted) requireLive();
      yield* events;
    })();
  }

  async #run(): Promise<void> {
    const log = this.#log;
    const { signal } = this.#closed;
    let told = false;
    while (!signal.aborted) {
      try {
        await this.#follow(() => {
          if (told) log.info(`${this.#source.product} is back`);
          told = false;
        });
      } catch (error) {
        if (signal.aborted) break;
        this.#live = false;
        this.#failure = error;
        this.events.end(error);
        // Of what is lost with the connection nothing will be told.
        for (const told of this.#expected.values()) told.resolve();
        this.#expected.clear();
        this.#first.resolve();
        if (!told) log.warn("deployments are not seen until the engine is there", { error });
        told = true;
      }
      await sleep(PAUSE_MS, signal).catch(() => {/* it ends */});
    }
    this.#first.resolve();
  }

  async #follow(found: () => void): Promise<void> {
    const { signal } = this.#closed;
    const events = await this.#source.events(signal);
    const list = await this.#source.list(signal);
    this.#known.clear();
    await Promise.all(list.map((id) => this.look(id, signal)));
    this.#alive.clear();
    for (const [id, { State }] of this.#known) if (State.Running) this.#alive.add(id);
    this.#live = true;
    this.#first.resolve();
    found();
    this.#connected().catch((error) => {
      if (!signal.aborted) this.#log.warn("deployments were not looked after", { error });
    });
    for await (const event of events) {
      await this.#take(event);
      this.#expected.get(`${event.Action} ${event.Actor.ID}`)?.resolve();
    }
  }

  async #take(event: EngineEvent): Promise<void> {
    const { Actor: { ID: container, Attributes } } = event;
    const deployment = Attributes[DEPLOYMENT];
    const replica = Attributes[REPLICA];
    if (deployment === undefined || replica === undefined) return;
    let { Action } = event;
    if (Action === "create") this.#made(deployment);
    if (Action === "destroy") this.#forget(container);
    else if (Action !== "oom" && Action !== "stop") await this.#update(event);
    if (Action === "health_status") {
      // An engine that tells of every probe.
      const now = this.#known.get(container)?.State.Health?.Status;
      if (now === undefined || now === this.#health.get(container)) return;
      this.#health.set(container, now);
      Action = `health_status: ${now}`;
    }
    const untold = Attributes[REHEARSAL] || this.#failed.get(container) && Action !== "destroy";
    if (Action === "die" && this.#failed.has(container)) this.#failed.set(container, true);
    for (const change of this.#changes({ ...event, Action })) {
      if (untold) break;
      this.events.emit({
        ...change,
        time: new Date(event.timeNano ? event.timeNano / 1e6 : event.time * 1000).toISOString(),
        deployment,
        instance: instanceId(deployment, replica),
        container,
      });
    }
    if (Action === "start" || Action === "destroy") this.#health.delete(container);
    if (Action === "destroy") {
      for (const set of [this.#quiet, this.#alive, this.#stopped]) set.delete(container);
    }
  }

  #forget(container: string): void {
    this.#turns.end(container);
    this.#known.delete(container);
    this.#exits.delete(container);
    this.#failed.delete(container);
    this.#stopping.delete(container);
    for (const action of ["start", "die"]) {
      this.#expected.get(`${action} ${container}`)?.resolve();
      this.#expected.delete(`${action} ${container}`);
    }
  }

  async #update({ Action, time, Actor }: EngineEvent): Promise<void> {
    if (Action === "die" && Actor.Attributes.exitCode !== undefined) {
      this.#exits.set(Actor.ID, Number(Actor.Attributes.exitCode));
    }
    const found = await this.look(Actor.ID, this.#closed.signal, Action === SETTLED);
    if (Action !== "die" || !found?.State.Running || found.State.Restarting) return;
    // The engine has restarted it meanwhile. Who reads of the death sees it dead, until the start is told.
    const begun = Date.parse(found.State.StartedAt) / 1000;
    if (begun + 1 < time) return;
    const ExitCode = Number(Actor.Attributes.exitCode ?? found.State.ExitCode);
    const State = { ...found.State, Status: "restarting", Restarting: true, ExitCode };
    this.#known.set(Actor.ID, { ...found, State });
  }

  #death(container: string, exitCode: number): InstanceChange[] {
    this.#alive.delete(container);
    const told = this.#stopped.delete(container);
    const asked = this.#stopping.delete(container) && !this.#quiet.has(container);
    const lacked = this.#source.reasonsUntold &&
      this.#known.get(container)?.State.OOMKilled;
    return [
      ...(lacked ? [{ type: "oom" } as const] : []),
      { type: "died", exitCode },
      ...(told || asked ? [{ type: "stopped" } as const] : []),
    ];
  }

  #changes({ Action, Actor: { ID, Attributes } }: EngineEvent): InstanceChange[] {
    switch (Action) {
      case "create":
        return [{ type: "created" }];
      case "start":
        this.#alive.add(ID);
        this.#quiet.delete(ID);
        return [{ type: "started" }];
      case "oom":
        return [{ type: "oom" }];
      case "die":
        return this.#death(ID, Number(Attributes.exitCode));
      case "stop":
        // An engine that does not tell all of them may tell some.
        if (this.#quiet.has(ID) || this.#source.reasonsUntold) return [];
        if (!this.#alive.has(ID)) return [{ type: "stopped" }];
        this.#stopped.add(ID);
        return [];
      case "destroy":
        return [{ type: "removed" }];
      case "health_status: healthy":
        return [{ type: "healthy" }];
      case "health_status: unhealthy":
        return [{ type: "unhealthy" }];
      default:
        return [];
    }
  }
}
