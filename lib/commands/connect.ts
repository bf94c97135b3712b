/** Makes a command's client from its flags, variables and profiles; no other module does. */
import { isLoopbackHost } from "../base/host_port.ts";
import { type Client, createClient } from "../client/client.ts";
import type { Connection } from "../client/connection.ts";
import { resolveTarget, type Target } from "../client/resolve.ts";
import type { CacheMode } from "../client/credentials/cache.ts";
import { createProvider } from "../client/credentials/provider.ts";
import { openWay } from "../client/transport/open.ts";
import type { Invocation } from "./command.ts";
import type { SessionValues } from "./session_options.ts";
import { terminalPrompt } from "./prompt.ts";

const PROXY_VARIABLES = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

export type Connecting = Pick<Invocation, "io" | "env" | "sources" | "cleanup" | "connection"> & {
  values: Invocation["values"] & SessionValues;
};

/** Resolves which server the command means and how to reach it; opens no connection. */
export async function target({ values, io, env, sources }: Connecting): Promise<Target> {
  const warnings: string[] = [];
  const found = await resolveTarget({
    os: Deno.build.os,
    env,
    cwd: Deno.cwd(),
    uid: Deno.build.os === "windows" ? null : Deno.uid(),
    ...(values.server !== undefined &&
      { server: { value: values.server, source: sources?.server ?? "--server" } }),
    ...(values.token !== undefined && { token: values.token }),
    ...(values.context !== undefined &&
      { context: { value: values.context, source: sources?.context ?? "--context" } }),
    ...(values.configFile !== undefined && { configFile: values.configFile }),
    ...(values.contextFile !== undefined && { contextFile: values.contextFile }),
    ...(values.viaServer !== undefined &&
      { viaServer: { value: values.viaServer, source: sources?.viaServer ?? "--via-server" } }),
    ...(values.conduit !== undefined &&
      { conduit: { value: values.conduit, source: sources?.conduit ?? "--conduit" } }),
    noContextFile: values.noContextFile ?? false,
    trustContextFile: values.trustContextFile ?? false,
    warn: (text) => void warnings.push(text),
  });
  for (const warning of warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  return found;
}

/**
 * Opens the command's connection to its server; it is closed when the command ends. `known`: the target, if it
 * was resolved before.
 */
export async function openConnection(invocation: Connecting, known?: Target): Promise<Connection> {
  const { io, env, values, cleanup, connection } = invocation;
  if (connection) return connection;
  const found = known ?? await target(invocation);
  const prompt = terminalPrompt(io, env);
  const signal = io.signal;
  const way = await openWay({ target: found, env, prompt, signal });
  cleanup?.use(way);
  const credentials = createProvider({
    target: found,
    way,
    env,
    cacheMode: values.tokenCache as CacheMode,
    prompt,
    signal,
  });
  const parts = { target: found, way, credentials };
  return { ...parts, client: clientFor(invocation, parts, signal) };
}

/** Another client of the same connection, whose calls end with a signal of their own. */
export function clientFor(
  { env }: Pick<Invocation, "env">,
  { target, way, credentials }: Omit<Connection, "client">,
  signal?: AbortSignal,
): Client {
  return createClient({
    server: target.server,
    credential: credentials,
    way,
    signal,
    proxied: PROXY_VARIABLES.some((name) => env[name]),
  });
}

/** True where the server mounts folders of this machine: it is on it, and no tunnel leads elsewhere. */
export function isLocal({ client, way }: Pick<Connection, "client" | "way">): boolean {
  const { host, port } = new URL(client.server);
  const direct = way.base === client.server || new URL(way.base).port === port;
  return isLoopbackHost(host) && direct && !way.resumes;
}

export async function connect(invocation: Connecting): Promise<Client> {
  return (await openConnection(invocation)).client;
}
