/**
 * What a workload asks on its own loopback: credentials as JSON, and in the shapes of AWS. One handler for
 * whoever listens there: the server in the workload's network namespace, or a companion.
 *
 * - `GET /credentials/NAME`: `{values, expiration}`.
 * - `GET /aws/NAME`: keys as the credentials endpoint of ECS gives them.
 * - `/upstream/NAME/…`: any request, sent on to an API with the credential added.
 * - `PUT /latest/api/token` and `GET /latest/meta-data/…`: the instance metadata service of EC2, version 2.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { type Delivery, METADATA_ADDRESS, variableOf } from "../api/credentials.ts";
import { SvcError } from "../base/errors.ts";
import { type AwsKeys, awsKeys } from "./credential.ts";
import { asDocument } from "./file_formats.ts";
import type { KeptCredential } from "./kept_source.ts";
import type { UpstreamDelivery } from "./upstream.ts";

export type EndpointDelivery = Extract<Delivery, { kind: "endpoint" }>;

export interface EndpointParts {
  deliveries: readonly EndpointDelivery[];
  get(name: string): Promise<KeptCredential>;
  upstreams?: readonly UpstreamDelivery[];
  /** Sends a request on to the upstream of that name; `path` is below the upstream's own. */
  send?(name: string, request: Request, path: string): Promise<Response>;
}

/** Seconds that a token of the metadata service may be asked for. */
const MAX_TOKEN_SECONDS = 21_600;
/** Milliseconds that AWS's SDKs are told keys are good that have no end of their own. */
const ENDLESS_MS = 3_600_000;

const ROLES = "/latest/meta-data/iam/security-credentials/";

const answer = (body: unknown, status = 200) =>
  new Response(JSON.stringify(body) + "\n", {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });

const text = (body: string, status = 200, headers: HeadersInit = {}) =>
  new Response(body, { status, headers: { "cache-control": "no-store", ...headers } });

const refuse = (status: number, message: string) => answer({ message }, status);

const time = (date: Date) => date.toISOString().replace(/\.\d+Z$/, "Z");

function ecsDocument({ accessKeyId, secretAccessKey, sessionToken }: AwsKeys, ends: Date) {
  return {
    AccessKeyId: accessKeyId,
    SecretAccessKey: secretAccessKey,
    // SDKs want one, also of keys that have none.
    Token: sessionToken ?? "",
    Expiration: time(ends),
  };
}

/** Tokens that only this process makes, with their end in them. */
class Tokens {
  readonly #key = randomBytes(32);

  #sign(until: string): string {
    return createHmac("sha256", this.#key).update(until).digest("base64url");
  }

  make(seconds: number): string {
    const until = String(Date.now() + seconds * 1000);
    return `${until}.${this.#sign(until)}`;
  }

  isGood(token: string): boolean {
    const [until = "", sign = ""] = token.split(".");
    const [ours, theirs] = [this.#sign(until), sign].map((one) => new TextEncoder().encode(one));
    return ours.length === theirs.length && timingSafeEqual(ours, theirs) &&
      Number(until) > Date.now();
  }
}

/** What a page of somebody else, or a proxy that was tricked, sends along, and no SDK does. */
function isForeign({ headers }: Request): boolean {
  const host = (headers.get("host") ?? "").replace(/:\d+$/, "");
  return headers.has("origin") || headers.has("x-forwarded-for") ||
    !["127.0.0.1", "localhost", METADATA_ADDRESS].includes(host);
}

class Endpoint {
  readonly #parts: EndpointParts;
  readonly #tokens = new Tokens();

  constructor(parts: EndpointParts) {
    this.#parts = parts;
  }

  async handle(request: Request): Promise<Response> {
    if (isForeign(request)) return refuse(403, "this endpoint is for the workload's own programs");
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/latest/")) return await this.#metadata(request, pathname);
    if (pathname.startsWith("/upstream/")) return await this.#send(request);
    if (request.method !== "GET") return refuse(405, "only GET");
    const [, shape, name] = /^\/(credentials|aws)\/([A-Za-z0-9_-]+)$/.exec(pathname) ?? [];
    const delivery = this.#parts.deliveries.find(({ source }) => source === name);
    if (!delivery || shape === "aws" && !delivery.aws) {
      return refuse(404, "there is no such credential");
    }
    if (shape === "aws") return answer(await this.#aws(name));
    return answer(asDocument(await this.#parts.get(name)));
  }

  async #send(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const [, name, path = "/"] = /^\/upstream\/([A-Za-z0-9_-]+)(\/.*)?$/.exec(pathname) ?? [];
    const { upstreams = [], send } = this.#parts;
    if (!send || !upstreams.some(({ source }) => source === name)) {
      return refuse(404, "there is no such upstream");
    }
    return await send(name, request, path + search);
  }

  async #aws(name: string) {
    const credential = await this.#parts.get(name);
    const ends = credential.expiration ?? new Date(Date.now() + ENDLESS_MS);
    return ecsDocument(awsKeys(name, credential), ends);
  }

  async #metadata(request: Request, path: string): Promise<Response> {
    const role = this.#parts.deliveries.find(({ aws }) => aws)?.source;
    if (role === undefined) return refuse(404, "there is no metadata service");
    if (path === "/latest/api/token") return this.#token(request);
    if (request.method !== "GET") return text("", 405);
    const token = request.headers.get("x-aws-ec2-metadata-token");
    if (token === null || !this.#tokens.isGood(token)) return text("", 401);
    if (path === ROLES || path === ROLES.slice(0, -1)) return text(role);
    if (path !== ROLES + role) return text("", 404);
    const [LastUpdated, keys] = [time(new Date()), await this.#aws(role)];
    return answer({ Code: "Success", LastUpdated, Type: "AWS-HMAC", ...keys });
  }

  #token({ method, headers }: Request): Response {
    if (method !== "PUT") return text("", 405);
    const field = "x-aws-ec2-metadata-token-ttl-seconds";
    const seconds = Number(headers.get(field) ?? NaN);
    if (!Number.isInteger(seconds) || seconds < 1 || seconds > MAX_TOKEN_SECONDS) {
      return text("", 400);
    }
    return text(this.#tokens.make(seconds), 200, { [field]: String(seconds) });
  }
}

/** A handler of requests on the workload's loopback. Its errors have no values in them. */
export function credentialEndpoint(parts: EndpointParts): (request: Request) => Promise<Response> {
  const endpoint = new Endpoint(parts);
  return async (request) => {
    try {
      return await endpoint.handle(request);
    } catch (error) {
      if (error instanceof SvcError) return refuse(503, error.message);
      return refuse(500, "the credential cannot be had");
    }
  };
}

/** The variables that tell a workload of its endpoint on that port. */
export function endpointVariables(
  deliveries: readonly EndpointDelivery[],
  port: number,
  upstreams: readonly UpstreamDelivery[] = [],
): Record<string, string> {
  const base = `http://127.0.0.1:${port}`;
  const variables: Record<string, string> = {};
  for (const { source, envVar } of upstreams) {
    const url = `${base}/upstream/${source}`;
    variables[`SVC_CREDENTIAL_${variableOf(source)}_UPSTREAM_URL`] = url;
    if (envVar !== undefined) variables[envVar] = url;
  }
  if (deliveries.length > 0) variables.SVC_CREDENTIALS_URL = `${base}/credentials`;
  for (const { source, aws, envVar } of deliveries) {
    const url = `${base}/credentials/${source}`;
    variables[`SVC_CREDENTIAL_${variableOf(source)}_URL`] = url;
    if (envVar !== undefined) variables[envVar] = url;
    if (!aws) continue;
    variables.AWS_CONTAINER_CREDENTIALS_FULL_URI = `${base}/aws/${source}`;
    variables.AWS_EC2_METADATA_SERVICE_ENDPOINT = base;
  }
  return variables;
}
