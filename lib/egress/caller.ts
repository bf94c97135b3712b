/**
 * The caller's part of the route `client`: it dials for a workload, through its own proxy settings, what its own
 * copy of the rules gives to that route. A server that asks for more is refused.
 */
import { isIP } from "node:net";
import { SvcError } from "../base/errors.ts";
import { connDuplex, type Duplex } from "../wire/duplex.ts";
import { dialDirect } from "../wire/socks5/direct.ts";
import { isInner } from "./gateway.ts";
import { egressMatch, type EgressPolicy, type EgressTarget } from "./policy.ts";
import { addressesFor, firstOf, type Lookup, place, refusedBy, requireRoute } from "./reach.ts";
import type { EgressDial } from "./relay.ts";
import { throughProxy } from "./upstream.ts";

const WHO = "the caller";

export interface CallerOptions {
  policy: EgressPolicy;
  /** Proxy variables: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY (variables.ts). */
  proxies: Readonly<Record<string, string>>;
  lookup?: Lookup;
}

/** True where NO_PROXY names the target: a host with all below it, `*`, an address or a range; a port may follow. */
export function withoutProxy(list: string, target: EgressTarget): boolean {
  return list.split(",").map((text) => text.trim().toLowerCase()).filter(Boolean).some((entry) => {
    const host = entry.replace(/^\*?\./, "");
    const patterns = [host, `*.${host}`];
    return patterns.some((pattern) => {
      try {
        return egressMatch(pattern)(target);
      } catch {
        return false; // no pattern: it names nothing
      }
    });
  });
}

/** The proxy that programs of the caller's machine would use for the target. */
export function proxyFor(
  proxies: Readonly<Record<string, string>>,
  target: EgressTarget,
): URL | undefined {
  if (withoutProxy(proxies.NO_PROXY ?? "", target) || target.host === "localhost") return undefined;
  if (isIP(target.host) !== 0 && isInner(target.host)) return undefined;
  const plain = target.port === 80 ? proxies.HTTP_PROXY : undefined;
  const text = plain ?? proxies.HTTPS_PROXY ?? proxies.ALL_PROXY ?? proxies.HTTP_PROXY;
  if (!text) return undefined;
  const url = text.includes("://") ? text : `http://${text}`;
  if (URL.canParse(url)) return new URL(url);
  throw new SvcError("config_invalid", "Cannot read the proxy variables: one is no URL", {
    help: "write them as http://host:port or socks5://host:port",
  });
}

/** Dials what the rules give to the caller. Throws `denied` for everything else. */
export function callersDial({ policy, proxies, lookup }: CallerOptions): EgressDial {
  const route = "client";
  return async (target, signal) => {
    await requireRoute(policy, target, route, WHO);
    // The machine's own services are not meant by a rule for everything.
    const mayDial = (address: string) => !isInner(address) || policy.names({ ...target, address });
    const proxy = proxyFor(proxies, target);
    const options = { policy, route, who: WHO, lookup, mayDial, signal } as const;
    if (!proxy) {
      const addresses = await addressesFor(target, options);
      return await firstOf(addresses, (address) => dialDirect(address, target.port, signal));
    }
    await checkBehindProxy(target, options);
    return await overProxy(proxy, target, signal);
  };
}

/** The proxy resolves the name: what this machine knows of its addresses must not be against the rules. */
async function checkBehindProxy(
  target: EgressTarget,
  options: Parameters<typeof addressesFor>[1],
): Promise<void> {
  try {
    await addressesFor(target, options);
  } catch (error) {
    const unknown = error instanceof SvcError && error.code === "not_found";
    if (!unknown) throw error;
    if (!options.policy.asksAddress) return;
    throw refusedBy(WHO, target, "a rule is about addresses, and only the proxy knows the host's");
  }
}

async function overProxy(proxy: URL, target: EgressTarget, signal: AbortSignal): Promise<Duplex> {
  const secure = proxy.protocol === "https:";
  const hostname = proxy.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(proxy.port || (secure ? 443 : proxy.protocol === "http:" ? 80 : 1080));
  const stream = secure
    ? connDuplex(await Deno.connectTls({ hostname, port }))
    : await dialDirect(hostname, port, signal);
  const abort = () => stream.reset();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await throughProxy(stream, proxy, target);
  } catch (error) {
    stream.reset();
    signal.throwIfAborted();
    if (error instanceof SvcError) throw error;
    throw new SvcError(
      "upstream_failed",
      `Cannot connect to ${place(target)}: the proxy ${hostname}:${port} hung up`,
      { cause: error },
    );
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
