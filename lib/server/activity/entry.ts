/** Which requests get an entry in the flight record, and what the entry says. */
import type { ActivityEntry } from "../../api/activity.ts";
import type { Ended } from "../http/exchange.ts";
import type { Context, Route } from "../route.ts";

/** A request that has been answered. */
export interface Answered {
  context: Pick<Context, "identity" | "params" | "request" | "connection"> & {
    id: string;
    /** Code of the error that the client was told, also when it was told in a stream. */
    outcome?: string;
    untilGone?: boolean;
    about?: string;
    url: URL;
  };
  route: Route;
  status: number;
  ended: Ended;
  /** From the request's head to the answer's last byte. */
  ms: number;
}

/** Host of "host:port". */
const hostOf = (remote: string) => remote.slice(0, remote.lastIndexOf(":"));

const AUTH = "/.svc/v1/auth/";

/** The first half of a login. Anybody may send it, and it changes nothing. */
const QUIET = new Set([`${AUTH}challenge`]);

/** Actions whose GETs transfer no content. */
const READS = new Set(["auth", "any", "read", "logs", "admin"]);

/** Requests that only prepare a pull or a push. The requests that transfer content are recorded instead. */
function isStep({ path, method, action }: Route, status: number, asked: string): boolean {
  if (!path.startsWith("/v2")) return false;
  if (asked === "HEAD" || method === "PATCH") return true;
  if (action === "pull") return !/\/(manifests|blobs|referrers)\//.test(path);
  if (!path.includes("/uploads")) return false;
  return method === "GET" || method === "DELETE" || status === 202;
}

const shorten = (text: string) => text.length > 300 ? `${text.slice(0, 299)}…` : text;

function nameOf(context: Answered["context"], route: Route): string | undefined {
  if (context.about !== undefined) return shorten(context.about);
  const { name, reference, digest, fingerprint } = context.params;
  if (name === undefined) {
    if (fingerprint !== undefined) return shorten(fingerprint);
    const tags = route.action === "build" ? context.url.searchParams.getAll("t") : [];
    return tags.length > 0 ? shorten(tags.join(" ")) : undefined;
  }
  const what = reference ?? digest ??
    (route.path.startsWith("/v2")
      ? context.url.searchParams.get("digest") ?? undefined
      : undefined);
  if (what === undefined) return shorten(name);
  return shorten(`${name}${what.includes(":") ? "@" : ":"}${what}`);
}

/** Undefined for requests that are not recorded: reads of the management API, and the steps of pulls and pushes. */
export function entryOf(answered: Answered): Omit<ActivityEntry, "time"> | undefined {
  const { context, route, status, ended, ms } = answered;
  const { identity, request, connection, id: requestId } = context;
  const denied = status === 401 || status === 403;
  const credentials = route.path.startsWith(AUTH);
  // Clients expect this challenge: a request without a credential is not a failed login.
  if (
    status === 401 && !credentials && !request.headers.has("authorization") &&
    !connection.certificate
  ) return undefined;
  const action = credentials ? "auth" : route.action;
  if (action === undefined || QUIET.has(route.path)) return undefined;
  if (READS.has(action) && route.method === "GET" && !denied) return undefined;
  if (!denied && isStep(route, status, request.method)) return undefined;
  const whole = ended.whole || context.untilGone;
  const outcome = context.outcome ?? (whole ? undefined : "cancelled");
  const failed = status >= 400 || outcome !== undefined;
  return {
    subject: status === 401 ? "" : shorten(identity.subject),
    method: identity.method,
    remote: hostOf(connection.remote),
    action,
    operation: `${route.method} ${route.path}`,
    // A caller who was refused must not be able to write names into the record.
    name: status === 401 ? undefined : nameOf(context, route),
    result: denied ? "denied" : failed ? "failed" : "ok",
    status,
    code: outcome,
    bytes: ended.sent,
    received: ended.received > 0 ? ended.received : undefined,
    durationMs: Math.round(ms * 10) / 10,
    request: requestId,
  };
}

/** Entries with the same key and about the same time are written as one entry with a count. */
export function alikeKey(entry: Omit<ActivityEntry, "time">): string {
  const { subject, method, remote, operation, name, status, code } = entry;
  return `${subject}\n${method}\n${remote}\n${operation}\n${name}\n${status}\n${code}`;
}
