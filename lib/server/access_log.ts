/** One line of the log for each request, when it has ended. */
import { Reply } from "../api/reply.ts";
import type { Identity } from "../api/route.ts";
import type { LogFields, Logger } from "../base/log.ts";
import type { Ended } from "./http/exchange.ts";

export interface AccessEntry {
  request: Request;
  path: string;
  /** The path's parameters, decoded: the repository and the reference of a registry request. */
  params: Record<string, string>;
  identity: Identity;
  connection: { remote: string };
  id: string;
}

/** Longer texts are cut: no real name is as long. */
const LONGEST = 300;

const short = (text: string) => text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;

/** What a request of `/v2/` is about: repository, tag or upload, and the digest asked for or answered with. */
function addRegistry(fields: LogFields, { params }: AccessEntry, response: Response): void {
  fields.repository = short(params.name);
  if (params.id !== undefined) fields.upload = short(params.id);
  if (params.reference !== undefined) fields.reference = short(params.reference);
  const digest = params.digest ??
    (response instanceof Reply
      ? response.field("docker-content-digest")
      : response.headers.get("docker-content-digest"));
  if (digest) fields.digest = short(digest);
}

/**
 * `bytes` are those of the answer's body that were sent, `received` those of the request's that were read;
 * `aborted`: the answer did not go out whole. `ms`: from the request's head to the answer's last byte.
 */
export function accessLine(
  log: Logger,
  level: "debug" | "info",
  entry: AccessEntry,
  { response, ended, ms }: { response: Response; ended: Ended; ms: number },
): void {
  if (!log.enabled(level)) return;
  const { request, path, params, identity, connection, id } = entry;
  const fields: LogFields = {
    method: request.method,
    path,
    status: response.status,
    bytes: ended.sent,
    durationMs: Math.round(ms * 10) / 10,
    subject: identity.subject,
    remote: connection.remote,
    request: id,
  };
  if (params.name !== undefined && path.startsWith("/v2/")) addRegistry(fields, entry, response);
  if (ended.received > 0) fields.received = ended.received;
  if (!ended.whole) fields.aborted = true;
  log[level]("request", fields);
}
