/** Typed calls of the routes of enrolled SSH keys and of the flight record. */
import type { ActivityEntry } from "../api/activity.ts";
import type { EnrolKeyRequest, EnrolledKey, KeyList } from "../api/auth.ts";
import type { Client } from "./client.ts";
import { problemError } from "./problems.ts";
import { Reported, resuming } from "./resume.ts";

export function listKeys(client: Client): Promise<KeyList> {
  return client.json("GET /auth/keys");
}

/** Throws `conflict` where the key is enrolled already with other settings. */
export function enrolKey(client: Client, request: EnrolKeyRequest): Promise<EnrolledKey> {
  return client.json("POST /auth/keys", { json: request });
}

export function removeKey(client: Client, fingerprint: string): Promise<void> {
  return client.json("DELETE /auth/keys/{fingerprint}", { params: { fingerprint } });
}

interface ActivityQuery {
  follow?: boolean;
  tail?: number;
  since?: Date;
}

async function* readEntries(client: Client, query: ActivityQuery): AsyncGenerator<ActivityEntry> {
  const events = client.events("GET /activity", {
    query: {
      follow: query.follow ? "true" : undefined,
      tail: query.tail === undefined ? undefined : String(query.tail),
      since: query.since?.toISOString(),
    },
  });
  for await (const event of events) {
    if ("error" in event) throw new Reported(problemError(event.error));
    yield event;
  }
}

/**
 * Entries, oldest first. Throws what the stream ends with. A followed record continues after a broken
 * connection, if the way to the server can be opened again.
 */
export function readActivity(client: Client, query: ActivityQuery): AsyncGenerator<ActivityEntry> {
  const resumes = query.follow === true && client.resumes;
  return resuming(
    resumes,
    (since) => readEntries(client, since ? { ...query, since, tail: undefined } : query),
  );
}
