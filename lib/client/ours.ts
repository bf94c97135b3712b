/**
 * Whether an answer can be from an svc server. A URL may lead to a web server, another registry or a proxy's
 * page, and these may answer anything with 200.
 */
import type { EndpointName } from "../api/endpoints.ts";
import { SvcError } from "../base/errors.ts";
import type { Answer } from "./local_http.ts";

type Value = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Value =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** An object that has a member of this name and type. */
const has = (value: unknown, name: string, type: string): boolean =>
  isObject(value) && typeof value[name] === type && value[name] !== null;

const DEPLOYMENT = (value: unknown) =>
  has(value, "name", "string") && Array.isArray((value as Value).instances);

const MANAGED = (value: unknown) =>
  has(value, "name", "string") && Array.isArray((value as Value).usedBy);
const ALL_MANAGED = (value: unknown) => Array.isArray(value) && value.every(MANAGED);

/** For each endpoint, the members that every answer has. */
const ANSWERS: { [K in EndpointName]?: (value: unknown) => boolean } = {
  "GET /info": (value) =>
    ["identity", "deploy"].some((name) => has(value, name, "object")) ||
    has(value, "registry", "string"),
  "GET /deployments": (value) => Array.isArray(value) && value.every(DEPLOYMENT),
  "GET /deployments/{name}": DEPLOYMENT,
  "GET /deployments/{name}/spec": (value) => has(value, "image", "string"),
  "POST /deployments/{name}/start": DEPLOYMENT,
  "POST /deployments/{name}/stop": DEPLOYMENT,
  "POST /deployments/{name}/restart": DEPLOYMENT,
  "GET /deployments/{name}/top": (value) =>
    Array.isArray(value) && value.every((one) => Array.isArray(one?.processes)),
  "GET /volumes": ALL_MANAGED,
  "GET /networks": ALL_MANAGED,
  "GET /volumes/{name}": MANAGED,
  "GET /networks/{name}": MANAGED,
  "GET /storage": (value) => has(value, "content", "object"),
  "GET /auth/keys": (value) => isObject(value) && Array.isArray(value.keys),
  "POST /auth/keys": (value) => has(value, "fingerprint", "string"),
  "POST /auth/challenge": (value) => has(value, "challenge", "string"),
  "POST /auth/session": (value) => has(value, "token", "string"),
};

export function isAnswer(name: EndpointName, value: unknown): boolean {
  // The answer to DELETE is 204 without a body.
  if (name.startsWith("DELETE ")) return false;
  return ANSWERS[name]?.(value) ?? true;
}

/** Members of streamed lines: each event, frame, entry or result has at least one of them. */
const EVENT = ["type", "line", "base64", "time", "action", "phase", "blobsDeleted"];

export function isEvent(value: unknown): boolean {
  return isObject(value) &&
    (EVENT.some((name) => Object.hasOwn(value, name)) || has(value.error, "code", "string"));
}

/** The error for an answer that is not svc's; `what` describes the answer. */
export function noneOfOurs(server: string, what: string, cause?: unknown): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot use ${server}: it answered ${what}, not as an svc server does`,
    { cause, help: "check the URL in --server or SVC_SERVER" },
  );
}

/** Describes another server's answer by its head. */
export function kindOf({ status, statusText, headers }: Answer): string {
  const location = headers.get("location");
  if (status >= 300 && status < 400 && location) return `with a redirect to ${location}`;
  const type = headers.get("content-type") ?? "";
  const what = headers.has("docker-distribution-api-version")
    ? " as another registry"
    : /html/.test(type)
    ? " with a web page"
    : "";
  return `${status} ${statusText}`.trim() + what;
}
