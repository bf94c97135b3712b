/** Typed calls of the storage routes. */
import type { GcEvent, GcResult, StorageUsage, VerifyEvent } from "../api/storage.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "./client.ts";
import { problemError } from "./problems.ts";

export type GcProgress = Extract<GcEvent, { type: "progress" }>;

/** Throws `conflict` while another collection runs. */
export async function collectGarbage(
  client: Client,
  query: { dryRun?: boolean; idle?: string },
  onProgress: (progress: GcProgress) => void | Promise<void>,
): Promise<GcResult> {
  const events = client.events("POST /gc", {
    query: { dryRun: query.dryRun ? "true" : undefined, idle: query.idle },
  });
  for await (const event of events) {
    if (event.type === "progress") await onProgress(event);
    else if (event.type === "result") return event.result;
    else throw problemError(event.error);
  }
  throw new SvcError(
    "upstream_failed",
    "Cannot tell how the collection ended: the server closed the connection",
  );
}

export function storageUsage(client: Client): Promise<StorageUsage> {
  return client.json("GET /storage");
}

/** Events as they come, the last one the result. */
export async function* verifyStorage(
  client: Client,
  query: { quarantine?: boolean },
): AsyncGenerator<Exclude<VerifyEvent, { type: "error" }>> {
  const events = client.events("POST /storage/verify", {
    query: { quarantine: query.quarantine ? "true" : undefined },
  });
  let ended = false;
  for await (const event of events) {
    if (event.type === "error") throw problemError(event.error);
    ended ||= event.type === "result";
    yield event;
  }
  if (ended) return;
  throw new SvcError(
    "upstream_failed",
    "Cannot tell how the check ended: the server closed the connection",
  );
}
