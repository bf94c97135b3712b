/** Typed calls of the deployment routes. */
import { type Logins, LOGINS_HEADER, loginsHeader } from "../api/build_logins.ts";
import type { CallerMount } from "../api/caller_mounts.ts";
import type { DeliveredFile } from "../api/delivered_files.ts";
import type { CallOf } from "../api/endpoints.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";
import type {
  ApplyEvent,
  ApplyResult,
  ApplyUntil,
  DeploymentStatus,
  LogFrame,
} from "../api/deployment.ts";
import {
  CERTIFIED_TYPE,
  type CertifiedDeployment,
  type HostCertificate,
} from "../api/ingress_certificates.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "./client.ts";
import { problemError } from "./problems.ts";
import { Reported, resuming } from "./resume.ts";

export function listDeployments(client: Client): Promise<DeploymentStatus[]> {
  return client.json("GET /deployments");
}

/** Throws `not_found`. */
export function getDeployment(client: Client, name: string): Promise<DeploymentStatus> {
  return client.json("GET /deployments/{name}", { params: { name } });
}

/** The spec that was applied last. Throws `not_found`. */
export function getSpec(client: Client, name: string): Promise<DeploySpec> {
  return client.json("GET /deployments/{name}/spec", { params: { name } });
}

export type PowerAction = "start" | "stop" | "restart";

export function powerDeployment(
  client: Client,
  name: string,
  action: PowerAction,
): Promise<DeploymentStatus> {
  return client.json(`POST /deployments/{name}/${action}`, { params: { name } });
}

/** Resolves when the deployment is removed. Throws `not_found`. */
export async function deleteDeployment(client: Client, name: string): Promise<void> {
  await client.json("DELETE /deployments/{name}", { params: { name }, query: { wait: "true" } });
}

/** The body of an apply: a checked spec under its name, or a text that the server parses. */
export type SpecBody =
  & {
    /** The caller's, for the registry of the spec's image. */
    logins?: Logins;
    /** Of this machine's files; only for sessions, which also take the stream `mount`. */
    mounts?: CallerMount[];
  }
  & (
    | { name: string; spec: unknown; certificates?: HostCertificate[]; files?: DeliveredFile[] }
    /** YAML or JSON; `source` names the text in the server's errors. */
    | { text: string; source: string }
  );

function specCall(
  { name, spec, certificates, files }: Extract<SpecBody, { spec: unknown }>,
): CallOf<"PUT /deployments/{name}"> {
  const params = { name };
  if (!certificates && !files?.length) {
    return { params, body: JSON.stringify(spec), contentType: "application/json" };
  }
  const certified: CertifiedDeployment = {
    spec,
    ...(certificates && { certificates }),
    ...(files?.length && { files }),
  };
  return { params, body: JSON.stringify(certified), contentType: CERTIFIED_TYPE };
}

export interface ApplySettings {
  /** How far the apply goes before it answers; absent: "ready". */
  until?: ApplyUntil;
  /** True: the instances are replaced even where nothing has changed. */
  recreate?: boolean;
}

/**
 * Applies a spec and waits until it runs, or as far as `until` says. The server validates. Throws what the server reported, or
 * `upstream_failed` where the connection ended before the outcome was known.
 */
export async function applyDeployment(
  client: Client,
  body: SpecBody,
  onProgress: (message: string) => void | Promise<void>,
  { until, recreate }: ApplySettings = {},
): Promise<ApplyResult> {
  const { logins } = body;
  const settings = { until, recreate: recreate ? "true" : undefined };
  const sent = logins && { headers: { [LOGINS_HEADER]: loginsHeader(logins) } };
  const events: AsyncIterable<ApplyEvent | ApplyResult> = "text" in body
    ? client.events("POST /deployments", {
      query: { source: body.source, ...settings },
      body: body.text,
      contentType: "application/yaml",
      ...sent,
    })
    : client.events("PUT /deployments/{name}", { ...specCall(body), query: settings, ...sent });
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

async function* readFrames(
  client: Client,
  name: string,
  query: LogQuery,
): AsyncGenerator<LogFrame> {
  const events = client.events("GET /deployments/{name}/logs", {
    params: { name },
    query: {
      follow: query.follow ? "true" : undefined,
      tail: query.tail?.toString(),
      since: query.since?.toISOString(),
      until: query.until?.toISOString(),
      instance: query.instance,
    },
  });
  for await (const event of events) {
    if ("error" in event) throw new Reported(problemError(event.error));
    yield event;
  }
}

/**
 * Frames as they come. Throws `not_found`, and what the server reports in mid-stream. A followed log continues
 * after a broken connection, if the way to the server can be opened again.
 */
export function readLogs(
  client: Client,
  name: string,
  query: LogQuery,
): AsyncGenerator<LogFrame> {
  const resumes = query.follow === true && client.resumes;
  return resuming(
    resumes,
    (since) => readFrames(client, name, since ? { ...query, since, tail: undefined } : query),
  );
}
