/** Registry host names: which of them are this server, and which are reached without TLS. */

/** "localhost", 127.0.0.0/8 or ::1, with or without a port. */
export function isLoopback(host: string): boolean {
  const { name } = splitHost(host);
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" ||
    /^127\.\d+\.\d+\.\d+$/.test(name);
}

/** A port of 443 or 80 counts as "no port": clients leave it out. */
export function splitHost(host: string): { name: string; port?: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?$/.exec(host);
  if (!match) return { name: host.toLowerCase() };
  const name = (match[1] ?? match[2]).toLowerCase();
  return match[3] === undefined ? { name } : { name, port: Number(match[3]) };
}

/** All names of loopback with one port are one host. */
function sameHost(one: string, other: string): boolean {
  if (one.toLowerCase() === other.toLowerCase()) return true;
  return isLoopback(one) && isLoopback(other) &&
    splitHost(one).port === splitHost(other).port;
}

export interface OwnHostsOptions {
  /** The address that the listener is bound to. */
  address: { hostname: string; port: number };
  /** SVC_ADVERTISE_REGISTRY without its scheme. */
  advertised?: string;
  /** This machine's names and addresses, needed where the listener is bound to every interface. */
  machine: () => string[];
}

/**
 * Tells whether the registry host of an image name is this server. Loopback names with the server's port count
 * only where the listener is reached over loopback.
 */
export function ownHosts(options: OwnHostsOptions): (host: string) => boolean {
  const { address, advertised } = options;
  const everywhere = address.hostname === "::" || address.hostname === "0.0.0.0";
  const names = new Set<string>();
  if (everywhere) { for (const name of options.machine()) names.add(name.toLowerCase()); }
  else names.add(address.hostname.toLowerCase());
  const loopback = everywhere || isLoopback(
    address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname,
  );
  return (host) => {
    if (advertised !== undefined && sameHost(host, advertised)) return true;
    const { name, port = 80 } = splitHost(host);
    if (port !== address.port) return false;
    return names.has(name) || loopback && isLoopback(host);
  };
}
