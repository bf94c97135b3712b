/**
 * Whether what came can be an svc server's answer. A web server, another registry or a proxy's page may
 * stand where a URL leads, and answer anything with 200.
 */
import { SvcError } from "../base/errors.ts";

type Value = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Value =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** An object that has a member of this name and type. */
const has = (value: unknown, name: string, type: string): boolean =>
  isObject(value) && typeof value[name] === type && value[name] !== null;

const DEPLOYMENT = (value: unknown) =>
  has(value, "name", "string") && Array.isArray((value as Value).instances);

/** By method and path below the prefix: what the answers have, each at the least. */
const ANSWERS: [RegExp, (value: unknown) => boolean][] = [
  // 204, and nothing in it.
  [/^DELETE /, () => false],
  [
    /^GET \/info$/,
    (value) =>
      ["identity", "deploy"].some((name) => has(value, name, "object")) ||
      has(value, "registry", "string"),
  ],
  [/^GET \/deployments$/, (value) => Array.isArray(value) && value.every(DEPLOYMENT)],
  [/ \/deployments\/[^/]+(\/(start|stop|restart))?$/, DEPLOYMENT],
  [/^GET \/storage$/, (value) => has(value, "content", "object")],
  [/^GET \/auth\/keys$/, (value) => isObject(value) && Array.isArray(value.keys)],
  [/^POST \/auth\/keys$/, (value) => has(value, "fingerprint", "string")],
  [/^POST \/auth\/challenge$/, (value) => has(value, "challenge", "string")],
  [/^POST \/auth\/session$/, (value) => has(value, "token", "string")],
];

export function isAnswer(method: string, path: string, value: unknown): boolean {
  const [, check] = ANSWERS.find(([pattern]) => pattern.test(`${method} ${path}`)) ?? [];
  return check === undefined || check(value);
}

/** Members one of which every event, frame and entry has, or the result that stands for them. */
const EVENT = ["type", "line", "base64", "time", "action", "phase", "blobsDeleted"];

export function isEvent(value: unknown): boolean {
  return isObject(value) &&
    (EVENT.some((name) => Object.hasOwn(value, name)) || has(value.error, "code", "string"));
}

/** `what` it answered. */
export function noneOfOurs(server: string, what: string, cause?: unknown): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot use ${server}: it answered ${what}, not as an svc server does`,
    { cause, help: "check the URL in --server or SVC_SERVER" },
  );
}

/** What another server's answer is, as far as its head tells. */
export function kindOf({ status, statusText, headers }: Response): string {
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
