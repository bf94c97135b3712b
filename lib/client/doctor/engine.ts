/** What the checks of a host's engines share: the registry, what is wanted of a file, how it is told. */

import type { Target } from "../resolve.ts";

export interface Registry {
  /** "host[:port]" */
  host: string;
  /** It speaks plain HTTP. */
  plain: boolean;
  /** PEM of the CA that its certificate is signed by, where the system does not know it. */
  ca?: string;
}

/**
 * The registry as engines see it: of a server that is reached with TLS it has TLS, too, except at another
 * port of the loopback interface, which is the server itself behind something that ends TLS.
 */
export function registryOf(advertised: string, server: string): Pick<Registry, "host" | "plain"> {
  const host = advertised.replace(/^https?:\/\//, "");
  if (advertised !== host) return { host, plain: advertised.startsWith("http://") };
  if (server.startsWith("http:")) return { host, plain: true };
  const portOf = (url: URL) => url.port || "443";
  const same = portOf(new URL(`https://${host}`)) === portOf(new URL(server));
  return { host, plain: isLoopback(host) && !same };
}

/** A name that means the server's own host, seen from another one. */
export function isElsewhere(host: string, { server, transport }: Target): boolean {
  if (!isLoopback(host)) return false;
  return transport.kind !== "direct" || !isLoopback(new URL(server).host);
}

export interface Fix {
  path: string;
  content: string;
  /** What has to be done for the file to count; absent: nothing. */
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
  /** "/" but in tests. */
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

/** Engines take these without TLS by themselves. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127\.[\d.]+|\[::1\])(:\d+)?$/.test(host);
}

export const known = (engine: string): TrustReport => ({
  engine,
  ok: true,
  detail: "nothing has to be set for TLS with a known CA",
  fixes: [],
});
