/** Typed calls of the deployment routes. */
import type { ApplyEvent, ApplyResult, DeploymentStatus, LogFrame } from "../api/deployment.ts";
import type { Problem } from "../api/problem.ts";
import { SvcError } from "../base/errors.ts";
import { type Client, problemError } from "./client.ts";
import { Resumption } from "./resume.ts";

const path = (name: string, rest = "") => `/deployments/${encodeURIComponent(name)}${rest}`;

export function listDeployments(client: Client): Promise<DeploymentStatus[]> {
  return client.json("GET", "/deployments");
}

/** Throws `not_found`. */
export function getDeployment(client: Client, name: string): Promise<DeploymentStatus> {
  return client.json("GET", path(name));
}

export type PowerAction = "start" | "stop" | "restart";

export function powerDeployment(
  client: Client,
  name: string,
  action: PowerAction,
): Promise<DeploymentStatus> {
  return client.json("POST", path(name, `/${action}`));
}

/** Resolves when it is gone. Throws `not_found`. */
export async function deleteDeployment(client: Client, name: string): Promise<void> {
  const response = await client.request("DELETE", path(name), { query: { wait: "true" } });
  await response.body?.cancel();
}

/** What an apply sends: a checked spec under its name, or a spec's text for the server to read. */
export type SpecBody =
  | { name: string; spec: unknown }
  /** YAML or JSON; `source` stands in the server's errors as the text's name. */
  | { text: string; source: string };

/**
 * Applies a spec and waits until it runs. The server validates. Throws what the server reported, or
 * `upstream_failed` where the connection ended before the outcome was known.
 */
export async function applyDeployment(
  client: Client,
  body: SpecBody,
  onProgress: (message: string) => void | Promise<void>,
): Promise<ApplyResult> {
  const events = "text" in body
    ? client.events<ApplyEvent | ApplyResult>("POST", "/deployments", {
      query: { source: body.source },
      body: body.text,
      contentType: "application/yaml",
    })
    : client.events<ApplyEvent | ApplyResult>("PUT", path(body.name), {
      body: JSON.stringify(body.spec),
      contentType: "application/json",
    });
  for await (const event of events) {
    if (!("type" in event)) return event; // a server that sends no progress answers with the result
    if (event.type === "progress") await onProgress(event.message);
    else if (event.type === "result") return event.result;
    else throw problemError(event.error);
  }
  const what = "text" in body ? body.source : body.name;
  throw new SvcError(
    "upstream_failed",
    `Cannot tell how the deployment of ${what} ended: the server closed the connection`,
    { help: "look at `svc ps`" },
  );
}

export interface LogQuery {
  follow?: boolean;
  tail?: number;
  since?: Date;
  until?: Date;
  instance?: string;
}

/** Attempts to go on with a log, one after the other, before it is given up. */
const ATTEMPTS = 6;
const PAUSE_MS = 250;

async function* readFrames(
  client: Client,
  name: string,
  query: LogQuery,
): AsyncGenerator<LogFrame | { error: Problem }> {
  yield* client.events<LogFrame | { error: Problem }>("GET", path(name, "/logs"), {
    query: {
      follow: query.follow ? "true" : undefined,
      tail: query.tail?.toString(),
      since: query.since?.toISOString(),
      until: query.until?.toISOString(),
      instance: query.instance,
    },
  });
}

const isBroken = (error: unknown) =>
  error instanceof SvcError &&
  (error.code === "upstream_failed" || error.code === "server_unreachable");

/**
 * Frames as they come; throws `not_found`, and what the server reports in mid-stream. A log that is
 * followed goes on where its connection broke, if the way to the server can be opened again.
 */
export async function* readLogs(
  client: Client,
  name: string,
  query: LogQuery,
): AsyncGenerator<LogFrame> {
  const shown = new Resumption();
  for (let attempt = 0, asked = query;; attempt++) {
    const frames = readFrames(client, name, asked);
    try {
      for (;;) {
        const { done, value } = await frames.next();
        if (done) return;
        if ("error" in value) throw new Reported(problemError(value.error));
        if (!shown.take(value)) continue;
        attempt = 0;
        yield value;
      }
    } catch (error) {
      if (error instanceof Reported) throw error.error;
      if (!query.follow || !client.resumes || !isBroken(error) || attempt >= ATTEMPTS) throw error;
    } finally {
      await frames.return(undefined);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** attempt));
    const since = shown.begin();
    asked = since ? { ...query, since, tail: undefined } : query;
  }
}

/** What the server said itself: no broken connection, whatever its code. */
class Reported extends Error {
  readonly error: SvcError;

  constructor(error: SvcError) {
    super(error.message);
    this.error = error;
  }
}
