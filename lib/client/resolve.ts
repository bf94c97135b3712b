/**
 * From flags, variables, profile and project to one way to a server (SPEC.md "Client connection profile
 * file", "Client-side environment variables", "Authentication" 4). Reads files; opens no connection.
 */
import { dirname } from "../base/path.ts";
import { SvcError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { readProfile, showsTokens } from "./profile/file.ts";
import { homeFolder, profilePath } from "./profile/location.ts";
import { absolutePaths } from "./profile/paths.ts";
import type { Context, Profile } from "./profile/types.ts";
import { type ProjectContext, projectContext } from "./project_context.ts";
import { parseServer } from "./server_url.ts";

export const DEFAULT_SERVER = "http://localhost:5000";

/** Where the server listens as seen from the host that the tunnel ends at. */
export const DEFAULT_REMOTE_ADDR = "127.0.0.1:5000";

/** A value that a person gave for this one call, and where. */
export interface Given {
  value: string;
  /** "--server", "SVC_SERVER" */
  source: string;
}

/** A setting that took effect, and where it comes from: "--via-server", "SVC_CONDUIT", "context a", "default". */
export interface Chosen<T> {
  value: T;
  source: string;
}

export interface ResolveInput {
  os: typeof Deno.build.os;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  uid?: number | null;
  server?: Given;
  /** `SVC_TOKEN`. */
  token?: string;
  context?: Given;
  configFile?: string;
  contextFile?: string;
  noContextFile?: boolean;
  trustContextFile?: boolean;
  /** `SVC_VIA_SERVER`, or the flag. */
  viaServer?: Chosen<boolean>;
  /** `SVC_CONDUIT`, or the flag; checked already. */
  conduit?: Chosen<string>;
  warn: (text: string) => void;
}

export type Transport =
  | { kind: "direct" }
  | { kind: "ssh"; settings: NonNullable<Context["ssh-tunnel"]> }
  | { kind: "kube"; settings: NonNullable<Context["port-forward"]> };

export type Credential =
  | { kind: "none" }
  | { kind: "token"; token: string; source: string }
  | { kind: "key"; settings: NonNullable<Context["key-auth"]> }
  | { kind: "kube"; settings: NonNullable<Context["kube-auth"]> };

export interface Target {
  /** Base URL as it is shown and as the server is named in requests. */
  server: string;
  /** Where the endpoint comes from, for a person. */
  source: string;
  /** The stored context that took part. */
  context?: string;
  profilePath?: string;
  transport: Transport;
  tls?: Context["tls"];
  credential: Credential;
  /** Present where the credential is to be traded (never that of a key-auth profile). */
  exchange?: { scope?: string };
  registryHost?: string;
  /** Workload streams go through the server, not straight to the cluster. */
  viaServer: Chosen<boolean>;
  /** "port-forward" or "socks5". */
  conduit: Chosen<string>;
  /** The context's SSH key, also where another credential goes before it. */
  keyAuth?: NonNullable<Context["key-auth"]>;
  /** Everything of the context that took effect, paths absolute. */
  settings: Context;
}

const ENDPOINT = ["server", "port-forward", "ssh-tunnel"] as const;
const CREDENTIAL = ["token", "kube-auth", "key-auth"] as const;

function without(context: Context, names: readonly (keyof Context)[]): Context {
  return Object.fromEntries(
    Object.entries(context).filter(([name]) => !names.includes(name as keyof Context)),
  );
}

/** A client certificate is a credential too. */
function withoutCredential(context: Context): Context {
  const rest = without(context, CREDENTIAL);
  if (!rest.tls) return rest;
  const { "client-cert": _cert, "client-key": _key, ...tls } = rest.tls;
  return { ...rest, tls };
}

const endpointOf = (context: Context): string =>
  JSON.stringify(ENDPOINT.map((name) => context[name] ?? null));

function definedOf(context: Context): Context {
  return Object.fromEntries(Object.entries(context).filter(([, value]) => value !== undefined));
}

/**
 * The override's fields over the stored ones, blocks whole. The ways to an endpoint are one choice, the
 * credentials are another; a stored credential does not follow to another endpoint.
 */
export function overlay(
  stored: Context,
  override: Context,
): { context: Context; dropped: boolean } {
  const over = definedOf(override);
  let base = stored;
  let dropped = false;
  if (ENDPOINT.some((name) => over[name] !== undefined)) {
    const moved = { ...without(base, ENDPOINT), ...over };
    if (endpointOf(moved) !== endpointOf(base)) {
      const rest = withoutCredential(base);
      dropped = JSON.stringify(rest) !== JSON.stringify(base);
      base = rest;
    }
    base = without(base, ENDPOINT);
  }
  if (CREDENTIAL.some((name) => over[name] !== undefined)) {
    base = without(base, CREDENTIAL);
    dropped = false;
  }
  return { context: { ...base, ...over }, dropped };
}

function select(profile: Profile, given: Given | undefined, path: string | undefined) {
  const name = given?.value || profile["current-context"];
  if (!name) return undefined;
  if (Object.hasOwn(profile.contexts, name)) return { name, context: profile.contexts[name] };
  const names = Object.keys(profile.contexts);
  const near = nearest(name, names);
  const known = names.length > 0 ? `it has ${names.join(", ")}` : "it has none";
  throw new SvcError(
    "config_invalid",
    `Cannot use context ${JSON.stringify(name)}: ${path ?? "the profile"} has none of that name` +
      (near ? `; did you mean ${near}?` : `; ${known}`),
    {
      help: given
        ? `correct ${given.source}; \`svc config get-contexts\` lists them`
        : "select another one with `svc config use-context NAME`",
    },
  );
}

const sameServer = (a: string, b: string) => parseServer(a).href === parseServer(b).href;

/** Flag or variable name a server: the rest of a context only goes with it where it is that context's. */
function explicitServer(
  given: Given,
  context: Context,
  chosen: boolean,
): Context {
  const same = context.server !== undefined && sameServer(context.server, given.value);
  const kept = same || chosen
    ? context
    : withoutCredential(without(context, ["tls", "registry-host"]));
  return { ...without(kept, ENDPOINT), server: given.value };
}

function transportOf(context: Context): { server: string; transport: Transport; source?: string } {
  const { server, "ssh-tunnel": ssh, "port-forward": kube, tls } = context;
  if (server !== undefined) return { server, transport: { kind: "direct" } };
  if (ssh) {
    const scheme = ssh["remote-tls"] ? "https" : "http";
    const remote = ssh["remote-addr"] ?? DEFAULT_REMOTE_ADDR;
    const host = remote.startsWith(":") ? `127.0.0.1${remote}` : remote;
    return { server: `${scheme}://${host}`, transport: { kind: "ssh", settings: ssh } };
  }
  if (kube) {
    const scheme = tls && !tlsIsEmpty(tls) ? "https" : "http";
    const host = `${kube.service}${kube.namespace ? `.${kube.namespace}` : ""}`;
    return {
      server: `${scheme}://${host}:${kube["remote-port"]}`,
      transport: { kind: "kube", settings: kube },
    };
  }
  return { server: DEFAULT_SERVER, transport: { kind: "direct" }, source: "default" };
}

const tlsIsEmpty = (tls: NonNullable<Context["tls"]>) =>
  Object.values(tls).every((value) => value === undefined || value === false);

function credentialOf(
  input: Pick<ResolveInput, "token">,
  context: Context,
  from: string,
): Credential {
  if (input.token) return { kind: "token", token: input.token, source: "SVC_TOKEN" };
  if (context["key-auth"]) return { kind: "key", settings: context["key-auth"] };
  const kube = context["kube-auth"];
  if (kube) {
    const forward = context["port-forward"];
    return {
      kind: "kube",
      settings: {
        ...kube,
        "kube-context": kube["kube-context"] ?? forward?.["kube-context"],
        namespace: kube.namespace ?? forward?.namespace,
      },
    };
  }
  if (context.token) return { kind: "token", token: context.token, source: from };
  return { kind: "none" };
}

/** The target of one context by itself; its paths are absolute. `source` names it for a person. */
export function contextTarget(context: Context, source: string): Target {
  const { server, transport } = transportOf(context);
  const { tls } = context;
  return {
    server,
    source,
    transport,
    ...(tls && !tlsIsEmpty(tls) && { tls }),
    credential: credentialOf({}, context, source),
    ...sessionOf({}, context, () => source),
    settings: context,
  };
}

/** How sessions reach workloads: flag or variable, then the context, then the default. */
function sessionOf(
  { viaServer, conduit }: Pick<ResolveInput, "viaServer" | "conduit">,
  context: Context,
  sourceOf: (name: keyof Context) => string,
): Pick<Target, "viaServer" | "conduit"> {
  const of = <T>(value: T | undefined, name: keyof Context, usual: T): Chosen<T> =>
    value === undefined ? { value: usual, source: "default" } : { value, source: sourceOf(name) };
  return {
    viaServer: viaServer ?? of(context["via-server"], "via-server", false),
    conduit: conduit ?? of(context.conduit?.mode, "conduit", "port-forward"),
  };
}

/** The context as flags and variables make it. */
function effective(
  { token, viaServer, conduit }: ResolveInput,
  context: Context,
): Context {
  return {
    ...(token ? without(context, CREDENTIAL) : context),
    ...(token && { token }),
    ...(viaServer && { "via-server": viaServer.value }),
    ...(conduit && { conduit: { ...context.conduit, mode: conduit.value } }),
  };
}

/** Throws `config_invalid` or `usage`. */
export async function resolveTarget(input: ResolveInput): Promise<Target> {
  const { os, env, server: given } = input;
  const path = profilePath({ os, env, explicit: input.configFile });
  const profile = await readProfile(path);
  if (path !== undefined && await showsTokens(path, profile)) {
    input.warn(`others can read the tokens in ${path}; chmod 600 ${path}`);
  }
  const selected = select(profile, input.context, path);
  const home = homeFolder(input);
  let context = selected ? absolutePaths(selected.context, dirname(path!), home) : {};
  const project = await projectContext({
    os,
    env,
    cwd: input.cwd,
    file: input.contextFile,
    disabled: input.noContextFile,
    trusted: input.trustContextFile,
    warn: input.warn,
    uid: input.uid,
  });
  if (project) context = applyProject(context, project, input.warn);
  if (given) context = explicitServer(given, context, input.context !== undefined);
  const from = selected ? `context ${selected.name}` : project ? project.path : "default";
  /** The stored context, or the project's file that lies over it. */
  const sourceOf = (...names: readonly (keyof Context)[]) =>
    names.some((name) => project?.context[name] !== undefined) ? project!.path : from;
  const { server, transport, source } = transportOf(context);
  const exchange = context["token-exchange"];
  const credential = credentialOf(input, context, sourceOf("token"));
  return {
    server,
    source: given?.source ?? source ?? sourceOf(...ENDPOINT),
    ...(selected && { context: selected.name }),
    ...(path !== undefined && { profilePath: path }),
    transport,
    ...(context.tls && !tlsIsEmpty(context.tls) && { tls: context.tls }),
    credential,
    ...(exchange?.enabled && !context["key-auth"] && credential.kind !== "none" &&
      { exchange: { ...(exchange.scope && { scope: exchange.scope }) } }),
    ...(context["registry-host"] && { registryHost: context["registry-host"] }),
    ...sessionOf(input, context, sourceOf),
    ...(context["key-auth"] && { keyAuth: context["key-auth"] }),
    settings: effective(input, context),
  };
}

function applyProject(
  context: Context,
  project: ProjectContext,
  warn: ResolveInput["warn"],
): Context {
  const { context: merged, dropped } = overlay(context, project.context);
  if (dropped) {
    warn(
      `${project.path} names another server, so the selected context's credential is not used; ` +
        "give the file a token or kube-auth",
    );
  }
  return merged;
}
