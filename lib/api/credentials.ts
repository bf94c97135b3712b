/**
 * The `credentials` of a deployment spec: what a source and its deliveries may say, and what travels.
 *
 * Values are made at the caller of a deploy session, from the spec's sources. The server gets the spec without
 * `backend`, `config` and `ttl`, and asks for values when they are wanted: it opens a stream `credential` whose
 * first line names the source; a line with a {@linkcode CredentialReply} comes back. A request to an API with the
 * credential added is made at the caller too (lib/credentials/upstream.ts).
 */
import { posix } from "node:path";
import type { CredentialDelivery, CredentialSource, DeploySpec } from "./deploy_spec.ts";

/** The caller's answer. `error`: why there are no values, in words without any secret. */
export type CredentialReply =
  | {
    values: Record<string, string>;
    /** Until when the values are good, by the caller's clock (RFC 3339). Absent: they do not end. */
    expiration?: string;
    /** Milliseconds after which newer values are to be had. */
    renewInMs?: number;
  }
  | { error: string };

export const FILE_FORMATS = ["json", "env", "raw", "aws-credentials"] as const;
export type FileFormat = (typeof FILE_FORMATS)[number];

/** The address of the instance metadata service of EC2. */
export const METADATA_ADDRESS = "169.254.169.254";

/** Name of an environment variable. */
export const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Names are parts of URLs, and of variables: in capitals, with `_` for `-`. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** HTTP field names. */
const FIELD = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

/** How a credential gets to the workload. `source`: the credential's name. */
export type Delivery =
  & { source: string; envVar?: string; valueKey?: string }
  & (
    | { kind: "file"; path: string; format: FileFormat }
    | { kind: "env"; envVar: string }
    /** `aws`: in the shapes of AWS; `wellKnown`: at {@linkcode METADATA_ADDRESS} too. */
    | { kind: "endpoint"; aws: boolean; wellKnown: boolean }
    /** Requests go on to the upstream with the credential added, in the field `header`: as a bearer's, or alone. */
    | { kind: "proxy"; upstream: string; header: string; bearer: boolean }
  );

type Report = (path: (string | number)[], message: string) => void;

/** The fields that each kind may have besides `kind`. */
const FIELDS: Record<string, readonly (keyof CredentialDelivery)[]> = {
  file: ["path", "format", "envVar", "valueKey"],
  env: ["envVar", "valueKey"],
  endpoint: ["provider", "wellKnown", "upstream", "envVar", "valueKey"],
};

export const variableOf = (name: string): string => name.toUpperCase().replaceAll("-", "_");

type Told = (field: keyof CredentialDelivery, message: string) => undefined;

function fileDelivery({ path, format = "json" }: CredentialDelivery, tell: Told) {
  if (path === undefined) return tell("path", "required: where the workload finds the file");
  if (posix.resolve(path) !== path || path === "/") {
    return tell("path", "expected an absolute path without '..' and double slashes");
  }
  const found = FILE_FORMATS.find((one) => one === format);
  return found
    ? { kind: "file" as const, path, format: found }
    : tell("format", `expected one of ${FILE_FORMATS.join(", ")}`);
}

function upstreamDelivery(
  { upstream, provider = "bearer", ...more }: CredentialDelivery,
  tell: Told,
) {
  if (more.wellKnown !== undefined) return tell("wellKnown", "not for an upstream");
  const url = URL.parse(upstream!);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash) {
    return tell("upstream", "expected an http or https URL without user, query and fragment");
  }
  const header = provider === "bearer" ? "authorization" : provider.replace(/^header:/, "");
  return FIELD.test(header) && (provider === "bearer" || provider.startsWith("header:"))
    ? {
      kind: "proxy" as const,
      upstream: url.href.replace(/\/$/, ""),
      header: header.toLowerCase(),
      bearer: provider === "bearer",
    }
    : tell("provider", "expected bearer, or header:NAME, for an upstream");
}

function endpointDelivery(delivery: CredentialDelivery, tell: Told) {
  if (delivery.upstream !== undefined) return upstreamDelivery(delivery, tell);
  const { provider, wellKnown, valueKey } = delivery;
  const aws = provider === "aws-imds";
  if (provider !== undefined && !aws) return tell("provider", "expected aws-imds");
  if (valueKey !== undefined) return tell("valueKey", "an endpoint gives all values");
  if (wellKnown !== undefined && !(aws && wellKnown === METADATA_ADDRESS)) {
    return tell("wellKnown", `expected ${METADATA_ADDRESS}, with provider: aws-imds`);
  }
  return { kind: "endpoint" as const, aws, wellKnown: wellKnown !== undefined };
}

function readDelivery(delivery: CredentialDelivery, tell: Told) {
  const { kind, envVar, valueKey } = delivery;
  if (!Object.hasOwn(FIELDS, kind)) return tell("kind", "expected file, env or endpoint");
  for (const [field, value] of Object.entries(delivery)) {
    const known = field === "kind" || (FIELDS[kind] as string[]).includes(field);
    if (value !== undefined && !known) {
      return tell(field as keyof CredentialDelivery, `not for kind: ${kind}`);
    }
  }
  if (envVar !== undefined && !VARIABLE.test(envVar)) return tell("envVar", "expected a variable");
  const named = {
    ...(envVar !== undefined && { envVar }),
    ...(valueKey !== undefined && { valueKey }),
  };
  if (kind === "env") {
    if (envVar === undefined) return tell("envVar", "required: the variable that gets the value");
    return { kind: "env" as const, ...named, envVar };
  }
  const read = kind === "file" ? fileDelivery(delivery, tell) : endpointDelivery(delivery, tell);
  return read && { ...read, ...named };
}

/** Checks all sources and deliveries; the list of the deliveries that are in order. */
function readDeliveries(sources: readonly CredentialSource[], report: Report): Delivery[] {
  const found: Delivery[] = [];
  const taken = new Map<string, string>();
  const claim = (what: string, by: string, tell: (other: string) => void) => {
    const other = taken.get(what);
    if (other !== undefined) tell(other);
    else taken.set(what, by);
  };
  for (const [i, { name, deliver = [] }] of sources.entries()) {
    const at = (...path: (string | number)[]) => ["credentials", "sources", i, ...path];
    if (!NAME.test(name)) report(at("name"), "expected letters, digits, '-' and '_', at most 63");
    claim(
      `the name ${variableOf(name)}`,
      `sources[${i}]`,
      (other) => report(at("name"), `${other} has that name, in capitals and with '_' for '-'`),
    );
    for (const [j, delivery] of deliver.entries()) {
      const tell = (field: keyof CredentialDelivery, message: string) =>
        void report(at("deliver", j, field), message) as undefined;
      const read = readDelivery(delivery, tell);
      if (!read) continue;
      const by = `sources[${i}].deliver[${j}]`;
      if (read.envVar) claim(`$${read.envVar}`, by, (other) => tell("envVar", `${other} has it`));
      if (read.kind === "file") claim(read.path, by, (other) => tell("path", `${other} is there`));
      else if (read.kind !== "env") {
        const what = read.kind === "proxy" ? `upstream of ${name}` : `endpoint of ${name}`;
        claim(what, by, (other) => tell("kind", `${other} is one already`));
        if (read.kind === "endpoint" && read.aws) {
          claim(
            "aws-imds",
            by,
            (other) => tell("provider", `${other} is one: it takes one account`),
          );
        }
      }
      found.push({ ...read, source: name });
    }
  }
  return found;
}

/** Rules of the spec's field. */
export function checkCredentials({ credentials }: DeploySpec, report: Report): void {
  if (credentials) readDeliveries(credentials.sources, report);
}

/** The deliveries of a checked spec, in its order. */
export function deliveriesOf({ credentials }: Pick<DeploySpec, "credentials">): Delivery[] {
  return credentials ? readDeliveries(credentials.sources, () => {}) : [];
}

/** The first port that endpoints are tried at, on the workload's loopback. */
const FIRST_PORT = 4170;

/** The port of the workload's endpoints: one that its spec does not name. */
export function endpointPort(
  { ports, expose = [], egress }: Pick<DeploySpec, "ports" | "expose" | "egress">,
): number {
  const named = new Set([...ports, ...expose].map(({ container }) => container));
  if (egress?.listenPort !== undefined) named.add(egress.listenPort);
  let port = FIRST_PORT;
  while (named.has(port)) port++;
  return port;
}

/** The spec as the server gets it: how values are made stays with the caller. */
export function withoutSources<S extends Pick<DeploySpec, "credentials">>(spec: S): S {
  if (!spec.credentials) return spec;
  const sources = spec.credentials.sources.map(({ name, deliver }) => ({ name, deliver }));
  return { ...spec, credentials: { sources } };
}
