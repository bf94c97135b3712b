/** What happens in the daemon, as it happens. */
import { SvcError } from "../base/errors.ts";
import type { DockerClient } from "./client.ts";
import { readMessages } from "./messages.ts";

export interface DockerEvent {
  /** "container", "network", "volume", "image". */
  Type: string;
  /** "start", "die", "health_status: healthy". */
  Action: string;
  Actor: { ID: string; Attributes: Record<string, string> };
  /** Seconds since 1970. */
  time: number;
  /** Nanoseconds since 1970, more than a number holds exactly. */
  timeNano?: number;
}

export interface EventOptions {
  /** The daemon's filters: `{ type: ["container"], label: ["a=b"] }`. */
  filters?: Readonly<Record<string, readonly string[]>>;
  signal: AbortSignal;
}

/**
 * Resolves once the daemon watches: every event from the call on is told. The events end with the signal, and
 * throw `unavailable` where the daemon goes away.
 */
export async function watchEvents(
  client: DockerClient,
  { filters, signal }: EventOptions,
): Promise<AsyncIterable<DockerEvent>> {
  const attempted = "Cannot watch the daemon's events";
  // The daemon sends its head before it watches: what happens in between is asked for by its own clock.
  const info = await client.json<{ SystemTime?: string }>({ path: "/info", attempted, signal });
  const body = await client.stream({
    path: "/events",
    query: { filters, since: info.SystemTime && unixTime(info.SystemTime) },
    attempted,
    signal,
  });
  const lost = () =>
    new SvcError("unavailable", `Cannot go on with the events: ${client.words.product} went away`, {
      help: client.words.help,
      detail: { daemon: "gone" },
    });
  return (async function* () {
    try {
      for await (const event of readMessages<DockerEvent>(body, attempted)) yield event;
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    if (!signal.aborted) throw lost();
  })();
}

/** "1700000000.123456789" for a time in RFC 3339 with up to nine digits after the point. */
export function unixTime(time: string): string {
  const nanos = /\.(\d{1,9})/.exec(time)?.[1].padEnd(9, "0") ?? "000000000";
  return `${Math.floor(Date.parse(time) / 1000)}.${nanos}`;
}
