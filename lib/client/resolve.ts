/**
 * Resolves flags, variables, profile and project context to one target (SPEC.md "Client connection profile
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

const DEFAULT_SERVER = "http://localhost:5000";

/** The server's default address as seen from the host at the end of the tunnel. */
export const DEFAULT_REMOTE_ADDR = "127.0.0.1:5000";

/** A value that was given for this call, and its source. */
export interface Given {
  value: string;
  /** "--server", "SVC_SERVER" */
  source: string;
}

/** The value of a setting, and its source: "--via-server", "SVC_CONDUIT", "context a", "default". */
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
  /** `SVC_CONDUIT`, or the flag; validated. */
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
  /** Base URL for requests and for messages. */
  server: string;
  /** Source of the endpoint, for a person. */
  source: string;
  /** Name of the stored context that was used. */
  context?: string;
  profilePath?: string;
  transport: Transport;
  tls?: Context["tls"];
  credential: Credential;
  /** Present where the credential is to be exchanged (never that of a key-auth profile). */
  exchange?: { scope?: string };
  registryHost?: string;
  /** True where workload streams go through the server instead of straight to the cluster. */
  viaServer: Chosen<boolean>;
  /** "port-forward" or "socks5". */
  conduit: Chosen<string>;
  /** The context's SSH key, also where another credential is used instead. */
  keyAuth?: NonNullable<Context["key-auth"]>;
  /** The resulting context, with absolute paths. */
  settings: Context;
}

const ENDPOINT = ["server", "port-forward", "ssh-tunnel"] as const;
const CREDENTIAL = ["token", "kube-auth", "key-auth"] as const;

function without(context: Context, names: readonly (keyof Context)[]): Context {
  return Object.fromEntries(
    Object.entries(context).filter(([name]) => !names.includes(name as keyof Context)),
  );
}

/** Removes the credentials, client certificates included. */
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
 * Merges the override into the stored context; a block replaces the whole block. An override of one way to an
 * endpoint replaces all of them, and so do credentials. A stored credential is not sent to another endpoint.
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

/**
 * The context for a server that a flag or a variable names. TLS settings and credentials are kept only if that
 * server is the context's, or the context was chosen explicitly.
 */
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

/** The target of a single context whose paths are absolute. `source` names the context for a person. */
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

/** How sessions reach workloads: by flag or variable, else by the context, else by the default. */
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

/** The context after flags and variables were applied. */
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
  /** Names the stored context, or the project's file if that file sets one of these fields. */
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
