/** From a command's flags, variables and profiles to its client: the one place that decides. */
import { type Client, createClient } from "../client/client.ts";
import { resolveTarget, type Target } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";

const PROXY_VARIABLES = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

export type Connecting = Pick<Invocation, "values" | "io" | "env" | "sources">;

/** Which server the command means, and how it is reached; nothing is opened. */
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
    noContextFile: values.noContextFile ?? false,
    trustContextFile: values.trustContextFile ?? false,
    warn: (text) => void warnings.push(text),
  });
  for (const warning of warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  return found;
}

export async function connect(invocation: Connecting): Promise<Client> {
  const { io, env } = invocation;
  const { server, credential } = await target(invocation);
  return createClient({
    server,
    ...(credential.kind === "token" && { token: credential.token }),
    signal: io.signal,
    proxied: PROXY_VARIABLES.some((name) => env[name]),
  });
}
