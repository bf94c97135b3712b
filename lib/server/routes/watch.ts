/** The routes that watch workloads: counters of one deployment, events of all. */
import { endpoint } from "../../api/endpoints.ts";
import type { InstanceEvent } from "../../api/deployment.ts";
import { parseDuration } from "../../base/duration.ts";
import { SvcError } from "../../base/errors.ts";
import type { ManagementDeps } from "../deps.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { streamed } from "../streamed.ts";
import { requireAbilityFor } from "./ability.ts";
import { CallerTurns } from "./caller_turns.ts";

/** Milliseconds between two samples, unless the query says something else. */
const EVERY_MS = 1000;
/** Sampling reads files or asks the engine: the least interval keeps that cheap. */
const LEAST_MS = 100;
const MOST_MS = 3_600_000;

/** Those who follow counters at once: the engine is read for each of them. */
const MOST_FOLLOWERS = 64;
const MOST_OF_ONE = 48;

function intervalOf(query: Query): number {
  const text = query.text("interval");
  if (text === undefined) return EVERY_MS;
  const ms = parseDuration(text);
  if (ms >= LEAST_MS && ms <= MOST_MS) return ms;
  const why = ms < LEAST_MS ? `less than ${LEAST_MS}ms` : "more than 1h";
  throw new SvcError(
    "argument_invalid",
    `Cannot read query parameter interval: ${text} is ${why}`,
  );
}

async function* of(
  events: AsyncIterable<InstanceEvent>,
  deployments: ReadonlySet<string>,
): AsyncGenerator<InstanceEvent> {
  for await (const event of events) {
    if (deployments.size === 0 || deployments.has(event.deployment)) yield event;
  }
}

/** Those who follow counters. */
class Followers {
  #count = 0;

  /** Throws `unavailable` where there are as many as there may be. */
  admit(attempted: string): void {
    if (this.#count < MOST_FOLLOWERS) return;
    const why = `${MOST_FOLLOWERS} clients follow some already`;
    throw new SvcError("unavailable", `Cannot ${attempted}: ${why}`);
  }

  /** Counts one until its samples end, or nobody reads them any more. `over` ends its caller's turn. */
  counted<T>(
    samples: AsyncIterable<T>,
    signal: AbortSignal,
    over: () => void,
  ): AsyncIterable<T> {
    this.#count++;
    let counts = true;
    const release = () => {
      if (counts) this.#count--;
      counts = false;
      over();
    };
    signal.addEventListener("abort", release, { once: true });
    return (async function* () {
      try {
        yield* samples;
      } finally {
        release();
      }
    })();
  }
}

export function watchRoutes(deps: ManagementDeps): Route[] {
  const { lifecycle: { stopping } } = deps;
  const followers = new Followers();
  const turns = new CallerTurns(deps.access, MOST_OF_ONE);

  async function stats(context: Context): Promise<Response> {
    const { url, params: { name } } = context;
    const query = new Query(url);
    const instance = query.text("instance");
    const everyMs = intervalOf(query);
    const follow = query.bool("follow") ?? false;
    const { ability } = await requireAbilityFor(deps, "stats", "show the counters of", name);
    if (!follow) {
      return streamed(context, { open: (signal) => ability(name, { instance, signal }) });
    }
    const attempted = `follow the counters of ${name}`;
    followers.admit(attempted);
    const over = turns.take(context.identity, attempted);
    return streamed(context, {
      stopping,
      open: (signal) =>
        followers.counted(ability(name, { instance, signal, everyMs }), signal, over),
    });
  }

  async function events(context: Context): Promise<Response> {
    const wanted = new Set(new Query(context.url).all("deployment"));
    const backend = await deps.deploy.backend();
    return streamed(context, {
      stopping,
      open: (signal) => of(backend.events(signal), wanted),
    });
  }

  return [
    {
      ...endpoint("GET /deployments/{name}/stats"),
      action: "read",
      help:
        "CPU, memory, processes, block and network counters (NDJSON) of every running instance, or of " +
        "`instance`: one sample, or with `follow` one every `interval` (a duration, 1s) until none runs.",
      handler: stats,
    },
    {
      ...endpoint("GET /events"),
      action: "read",
      help:
        "State changes of instances as they happen (NDJSON), beginning with the answer's head: of all " +
        "deployments, or of each `deployment`.",
      handler: events,
    },
  ];
}
