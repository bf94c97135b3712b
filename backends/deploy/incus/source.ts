/** The instances of one server, and what happens to them. */
import type { Logger } from "../../../lib/base/log.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import type { IncusEvent, Instance } from "../../../lib/incus/types.ts";
import type { Inspected } from "../shared/engine_api/inspect.ts";
import { SERVER } from "../shared/engine_api/labels.ts";
import type { EngineEvent, WatchSource } from "../shared/engine_api/watch.ts";
import { inspected } from "./inspect.ts";
import { Keeper } from "./keeper.ts";
import { type IncusPlace, keyOf, labelsOf } from "./place.ts";

/** Docker's words for what happens to an instance. */
const ACTIONS: Record<string, string> = {
  "instance-created": "create",
  "instance-started": "start",
  // Of one that somebody has restarted nothing else is told.
  "instance-restarted": "start",
  "instance-stopped": "die",
  "instance-shutdown": "die",
  "instance-deleted": "destroy",
  "instance-paused": "pause",
  "instance-resumed": "unpause",
};

/** Attempts to look at an instance that ends, and milliseconds between them. */
const ATTEMPTS = 50;
const PAUSE_MS = 50;

const INSTANCE = /^\/1\.0\/instances\/([^/?]+)(?:\?|$)/;

/** Events that wait to be read. */
class Waiting {
  readonly #events: EngineEvent[] = [];
  #wake = () => {};
  #over = false;
  #failure: unknown;

  push(event: EngineEvent): void {
    this.#events.push(event);
    this.#wake();
  }

  end(failure?: unknown): void {
    this.#over = true;
    this.#failure = failure;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<EngineEvent> {
    for (;;) {
      for (let event = this.#events.shift(); event; event = this.#events.shift()) yield event;
      if (this.#over) break;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    if (this.#failure !== undefined) throw this.#failure;
  }
}

export interface SourceOptions {
  place: IncusPlace;
  /** Where logs are kept. */
  folder: string;
  log: Logger;
  /** Starts an instance again by its rule. */
  restart: (name: string) => Promise<void>;
  /** An instance may have changed. */
  moved: () => void;
}

export class IncusSource implements WatchSource {
  readonly product = "Incus";
  // Incus tells of ends alone, not of why.
  readonly reasonsUntold = true;
  readonly lateEvents = true;
  readonly #options: SourceOptions;
  readonly #keepers = new Map<string, Keeper>();
  #waiting = new Waiting();

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  /** What is kept of an instance of this server. */
  keeper(name: string): Keeper | undefined {
    return this.#keepers.get(name);
  }

  async #get(name: string, signal?: AbortSignal): Promise<Instance> {
    const { place: { client } } = this.#options;
    for (let attempt = 1;; attempt++) {
      try {
        return await client.get<Instance>({
          path: `/instances/${encodeURIComponent(name)}`,
          query: { recursion: 1 },
          attempted: "Cannot look at an instance",
          signal,
        });
      } catch (error) {
        // It ends at this moment.
        if (attempt === ATTEMPTS || !/invalid pid/i.test(String(error))) throw error;
        await sleep(PAUSE_MS, signal);
      }
    }
  }

  #keep({ name, config }: Pick<Instance, "name" | "config">): Keeper {
    const known = this.#keepers.get(name);
    if (known) return known;
    const { place: { client }, folder, log, restart } = this.#options;
    const keeper = new Keeper({
      ...{ client, name, folder, log },
      restart: () => restart(name),
      changed: (health) => {
        if (health !== "starting") this.#tell(keeper, name, `health_status: ${health}`);
      },
    });
    keeper.labels = labelsOf(config);
    this.#keepers.set(name, keeper);
    return keeper;
  }

  #tell({ labels, exitCode }: Keeper, name: string, Action: string, at = Date.now()): void {
    this.#waiting.push({
      Action,
      Actor: { ID: name, Attributes: { ...labels, exitCode: String(exitCode) } },
      time: at / 1000,
      timeNano: at * 1e6,
    });
  }

  /** Of a run that has ended, and whose end Incus does not tell. */
  #tellEnd(keeper: Keeper, name: string): void {
    if (!keeper.untold) return;
    keeper.told.end = keeper.over;
    // Its start is by Incus's clock, which may be ahead: no end comes before its start.
    this.#tell(keeper, name, "die", Math.max(Date.now(), Date.parse(keeper.over)));
  }

  async inspect(name: string, signal?: AbortSignal): Promise<Inspected> {
    const found = await this.#get(name, signal);
    const keeper = this.#keep(found);
    await keeper.see(found);
    this.#options.moved();
    return inspected(found, keeper);
  }

  async list(signal: AbortSignal): Promise<string[]> {
    const { place: { client, server } } = this.#options;
    const all = await client.get<Instance[]>({
      path: "/instances",
      query: { recursion: 1 },
      attempted: "Cannot list the instances",
      signal,
    });
    return all.filter(({ config }) => config[keyOf(SERVER)] === server).map(({ name }) => name);
  }

  async events(signal: AbortSignal): Promise<AsyncIterable<EngineEvent>> {
    const { place: { client } } = this.#options;
    const changes = await client.lifecycles(signal);
    const waiting = this.#waiting = new Waiting();
    (async () => {
      for await (const change of changes) await this.#take(change);
    })().then(() => waiting.end(), (error) => waiting.end(error));
    return waiting;
  }

  async #take({ timestamp, metadata: { action, source, requestor } }: IncusEvent): Promise<void> {
    const name = decodeURIComponent(INSTANCE.exec(source)?.[1] ?? "");
    const Action = ACTIONS[action];
    if (!name || !Action) return;
    const keeper = await this.#find(name, Action);
    if (!keeper) return;
    // Somebody stopped it: it stays so.
    if (Action === "die" && requestor && !keeper.killed) keeper.halt(true);
    if (action === "instance-stopped") keeper.forced = true;
    const at = Date.parse(timestamp);
    if (Action === "start") {
      if (action === "instance-restarted") this.#tell(keeper, name, "die", at);
      const found = await this.#get(name).catch(unlessGone);
      if (found) await keeper.see(found);
      this.#tell(keeper, name, Action, at);
      if (found) keeper.told.start = found.last_used_at;
    } else if (Action === "die") {
      await this.#get(name).then((found) => keeper.see(found)).catch(unlessGone);
      if (!keeper.over || keeper.told.end !== keeper.over) this.#tell(keeper, name, Action, at);
      keeper.told.end = keeper.over;
    } else if (Action !== "destroy") this.#tell(keeper, name, Action, at);
    this.#tellEnd(keeper, name);
    if (Action === "destroy") {
      this.#tell(keeper, name, Action, at);
      this.#keepers.delete(name);
      await keeper.close();
      await keeper.recorder.remove();
    }
    this.#options.moved();
  }

  /** Undefined: it is not this server's. */
  async #find(name: string, Action: string): Promise<Keeper | undefined> {
    const known = this.#keepers.get(name);
    if (known || Action === "destroy") return known;
    try {
      const found = await this.#get(name);
      const { place: { server } } = this.#options;
      return found.config[keyOf(SERVER)] === server ? this.#keep(found) : undefined;
    } catch (error) {
      return void unlessGone(error);
    }
  }

  /** Lets go of all instances, which run on. */
  async close(): Promise<void> {
    await Promise.all([...this.#keepers.values()].map((keeper) => keeper.close()));
  }
}

function unlessGone(error: unknown): undefined {
  if (!(error instanceof SvcError) || error.code !== "not_found") throw error;
}
