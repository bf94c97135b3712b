/** The build request that a query describes. The route adds the context and the inputs of a session. */
import { parseAttest } from "../api/build_attest.ts";
import { parseCacheFrom, parseCacheTo } from "../api/build_cache_spec.ts";
import { type Entitlement, parseEntitlement } from "../api/build_entitlements.ts";
import { parseOutput } from "../api/build_output.ts";
import { NO_PULL_HEADER, readCaller } from "../api/build_logins.ts";
import { parametersOf } from "../api/endpoints.ts";
import { SvcError } from "../base/errors.ts";
import type { BuildCaller, BuildRequest } from "../build/builder.ts";
import type { NamedContext } from "../build/inputs.ts";
import type { Access } from "./access.ts";
import { Query, requireKnown } from "./query.ts";
import type { Identity } from "./route.ts";

const IMAGE = "docker-image://";

/** A context that the server fetches; folders come with a session. */
function namedContext(name: string, value: string): NamedContext {
  if (value.startsWith(IMAGE)) return { kind: "image", name: value.slice(IMAGE.length) };
  if (/^(https?|git|ssh):\/\/|^git@/.test(value)) return { kind: "url", url: value };
  throw new SvcError(
    "argument_invalid",
    `Cannot use build context ${name}: ${JSON.stringify(value)} is not an image, URL or repository`,
    { help: "write docker-image://NAME or a URL; a folder needs `svc build`" },
  );
}

/** A name for the caller's own build caches. Undefined: this server does not tell callers apart. */
export function cacheOwner(
  { perIdentity }: Access,
  { method = "", subject }: Identity,
  headers: Headers,
): string | undefined {
  const own = perIdentity ? [encodeURIComponent(`${method} ${subject}`)] : [];
  // A delegating server is one caller to this server; its header names the caller that it builds for.
  const names = [...own, readCaller(headers)].filter((name) => name !== undefined);
  return names.length > 0 ? names.join(" ") : undefined;
}

export function buildCaller(access: Access, identity: Identity, headers: Headers): BuildCaller {
  const owner = cacheOwner(access, identity, headers);
  return {
    subject: identity.subject,
    mayPull: access.allows(identity, "pull") && !headers.has(NO_PULL_HEADER),
    ...(owner !== undefined && { cacheOwner: owner }),
  };
}

const NETWORKS = ["default", "none", "host"] as const;

/** One of the words that a parameter takes. */
function word<T extends string>(parameter: string, text: string, known: readonly T[]): T {
  const found = known.find((one) => one === text);
  if (found !== undefined) return found;
  throw new SvcError(
    "argument_invalid",
    `Cannot read query parameter ${parameter}: expected ${known.join(" or ")}, got ${
      JSON.stringify(text)
    }`,
  );
}

/** Throws `argument_invalid` for parameters that are unknown or malformed. */
export function buildRequest(url: URL): Omit<BuildRequest, "context"> {
  // `url` may come from a session's first line: its parameters are those of `POST /build` then, too.
  requireKnown(url, parametersOf("POST /build"));
  const query = new Query(url);
  const addHosts = query.all("addhost");
  const allow = query.all("allow") as Entitlement[];
  allow.forEach(parseEntitlement);
  const network = query.text("network");
  const outputs = query.all("output").map(parseOutput);
  const annotations = query.all("annotation");
  const named = Object.entries(query.pairs("buildcontext")).map(([name, value]) =>
    [name, namedContext(name, value)] as const
  );
  const cacheFrom = query.all("cachefrom").map(parseCacheFrom);
  const cacheTo = query.all("cacheto").map(parseCacheTo);
  const attest = query.all("attest").flatMap((text) => parseAttest(text) ?? []);
  return {
    tags: query.all("t"),
    dockerfile: query.text("dockerfile") || "Dockerfile",
    target: query.text("target") || undefined,
    platform: query.text("platform") || undefined,
    buildArgs: query.pairs("buildarg"),
    labels: query.pairs("label"),
    noCache: query.bool("nocache") ?? false,
    ...(query.bool("reproducible") && { reproducible: true }),
    ...(outputs.length > 0 && { outputs }),
    ...(attest.length > 0 && { attest }),
    ...(cacheFrom.length > 0 && { cacheFrom }),
    ...(cacheTo.length > 0 && { cacheTo }),
    ...(annotations.length > 0 && { annotations }),
    ...(named.length > 0 && { contexts: Object.fromEntries(named) }),
    ...(addHosts.length > 0 && { addHosts }),
    ...(allow.length > 0 && { allow }),
    ...(network && { network: word("network", network, NETWORKS) }),
    ...(query.bool("pull") && { pull: true }),
    ...(query.text("remote") && { contextUrl: query.text("remote") }),
  };
}
