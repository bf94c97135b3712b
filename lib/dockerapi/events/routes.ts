/** `GET /events`. */
import { sleep } from "../../base/sleep.ts";
import type { DockerApi } from "../api.ts";
import { checkFilters, filtered, type Filters, hasLabel, type Tests, timeOf } from "../filters.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import type { DockerEvent } from "./hub.ts";

/** Events that wait for a slow reader, at most. */
const MAX_WAITING = 10_000;

const isActor =
  (type: string) => ({ Type, Actor: { ID, Attributes } }: DockerEvent, value: string) =>
    Type === type &&
    (ID === value || value.length >= 2 && ID.startsWith(value) || Attributes.name === value);

/** Of these nothing is told. */
const NEVER = ["daemon", "service", "node", "plugin", "secret", "config"];

export const EVENT_TESTS: Tests<DockerEvent> = {
  type: ({ Type }, value) => Type === value,
  // "exec_create: sh" is exec_create, and "health_status: healthy" is health_status.
  event: ({ Action }, value) => Action === value || Action.split(":", 1)[0] === value,
  label: ({ Actor }, value) => hasLabel(Actor.Attributes, value),
  container: isActor("container"),
  network: isActor("network"),
  volume: isActor("volume"),
  image: (event, value) => isActor("image")(event, value) || event.Actor.Attributes.image === value,
  scope: (_event, value) => value === "local",
  ...Object.fromEntries(NEVER.map((name) => [name, () => false])),
};

/** Milliseconds. */
type Times = readonly (number | undefined)[];

async function* told(
  call: Call,
  api: DockerApi,
  filters: Filters,
  [since, until]: Times,
): AsyncGenerator<string> {
  const waiting: DockerEvent[] = since === undefined ? [] : api.events.since(since);
  let wake = () => {};
  const release = api.events.listen((event) => {
    if (waiting.length < MAX_WAITING) waiting.push(event);
    wake();
  });
  const over = new AbortController();
  const signal = AbortSignal.any([call.signal, over.signal]);
  let ended = false;
  const end = () => {
    ended = true;
    wake();
  };
  signal.addEventListener("abort", end, { once: true });
  if (until !== undefined) void sleep(Math.max(0, until - Date.now()), signal).then(end, end);
  try {
    for (;;) {
      for (const event of filtered(waiting.splice(0), filters, EVENT_TESTS)) {
        if (until !== undefined && event.timeNano > until * 1e6) return;
        yield `${JSON.stringify(event)}\n`;
      }
      if (call.signal.aborted) return;
      if (waiting.length > 0) continue;
      if (ended) return;
      await new Promise<void>((resolve) => wake = resolve);
    }
  } finally {
    over.abort();
    release();
  }
}

function events(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  // What is wrong is refused before the stream begins.
  checkFilters(filters, Object.keys(EVENT_TESTS));
  const times = ["since", "until"].map((name) => {
    const text = call.query.get(name);
    return text ? timeOf(text) : undefined;
  });
  return Promise.resolve({
    headers: { "content-type": "application/json" },
    stream: told(call, api, filters, times),
  });
}

export const EVENT_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/events", handler: events },
];
