/** What the checks of a host's container engines share: the registry, the fixes of files, the reports. */

import type { Target } from "../resolve.ts";

export interface Registry {
  /** "host[:port]" */
  host: string;
  /** The registry speaks plain HTTP. */
  plain: boolean;
  /** PEM of the CA that signed the registry's certificate, if the system does not trust that CA. */
  ca?: string;
}

/**
 * The registry as engines see it. It has TLS if the server is reached with TLS, with one exception: another
 * port of the loopback interface is the server's own plain listener behind a TLS proxy.
 */
export function registryOf(advertised: string, server: string): Pick<Registry, "host" | "plain"> {
  const host = advertised.replace(/^https?:\/\//, "");
  if (advertised !== host) return { host, plain: advertised.startsWith("http://") };
  if (server.startsWith("http:")) return { host, plain: true };
  const portOf = (url: URL) => url.port || "443";
  const same = portOf(new URL(`https://${host}`)) === portOf(new URL(server));
  return { host, plain: isLoopback(host) && !same };
}

/** True for a loopback name of the registry when the server runs on another host. */
export function isElsewhere(host: string, { server, transport }: Target): boolean {
  if (!isLoopback(host)) return false;
  return transport.kind !== "direct" || !isLoopback(new URL(server).host);
}

export interface Fix {
  path: string;
  content: string;
  /** The step that makes the engine read the file; absent: none is needed. */
  then?: string;
}

export interface TrustReport {
  engine: string;
  ok: boolean;
  detail: string;
  fixes: Fix[];
}

export interface TrustInput {
  registry: Registry;
  /** "/", except in tests. */
  root: string;
}

export async function text(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}

export const there = (path: string) => Deno.stat(path).then(() => true, () => false);

/** True for hosts that engines contact without TLS by default. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127\.[\d.]+|\[::1\])(:\d+)?$/.test(host);
}

export const known = (engine: string): TrustReport => ({
  engine,
  ok: true,
  detail: "nothing has to be set for TLS with a known CA",
  fixes: [],
});
