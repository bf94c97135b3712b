/**
 * Which route a connection of a workload takes. The companion, the server and the caller decide with this one
 * function, each with the spec as it knows it, and a connection is made only where all of them agree.
 */
import { BlockList, isIP } from "node:net";
import { DEFAULT_EGRESS_ROUTE, type EgressRoute, type EgressSpec } from "../api/egress.ts";
import { type EgressPattern, parseEgressPattern } from "../api/egress_pattern.ts";
import { globMatches } from "../auth/glob.ts";

/** Where a connection is to go. */
export interface EgressTarget {
  /** A name or an address, as {@linkcode egressHost} writes it. */
  host: string;
  port: number;
  /** The address that a name was resolved to, where it is known. */
  address?: string;
}

/**
 * The one way of writing a host: lower case, no trailing dot; an address as the resolver would read it, so that
 * "0x7f.1" is 127.0.0.1, and an IPv4 address in IPv6 is an IPv4 address. Undefined: it is no host.
 */
export function egressHost(text: string): string | undefined {
  const host = text.replace(/^\[(.*)\]$/, "$1").toLowerCase().replace(/\.$/, "");
  if (isIP(host) === 6) return host.includes("%") ? undefined : ipv6(host);
  if (!/^[a-z0-9_.-]{1,253}$/.test(host)) return undefined;
  // A last label of digits makes it an address to resolvers, in one of the forms of inet_aton(3).
  if (!/(^|\.)(0x[0-9a-f]*|\d+)$/.test(host)) return host;
  const url = `http://${host}`;
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}

function ipv6(address: string): string {
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(short);
  if (!mapped) return short;
  const [high, low] = mapped.slice(1).map((part) => parseInt(part, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** Whether the address lies in a range; a name lies in none. */
function rangeOf({ address, bits, family }: NonNullable<EgressPattern["range"]>) {
  const list = new BlockList();
  list.addSubnet(address, bits, family);
  return (text: string | undefined) => {
    const version = text === undefined ? 0 : isIP(text);
    return version !== 0 && list.check(text!, version === 6 ? "ipv6" : "ipv4");
  };
}

export type EgressMatch = (target: EgressTarget) => boolean;

/** Throws an `Error` for an unreadable pattern. */
export function egressMatch(pattern: string): EgressMatch {
  const { host, range, port } = parseEgressPattern(pattern);
  const inRange = range && rangeOf(range);
  return (target) =>
    (port === undefined || port === target.port) &&
    (host === undefined || isIP(target.host) === 0 && globMatches(host, target.host)) &&
    (!inRange || inRange(target.host) || inRange(target.address));
}

export interface EgressPolicy {
  /** Pure: the same target always gets the same route. Never rejects: what cannot be decided is denied. */
  decide(target: EgressTarget): EgressRoute | Promise<EgressRoute>;
  /** The rule that decides names the host, or a range: it is neither the default nor a glob. */
  names(target: EgressTarget): boolean;
  /** A rule is about addresses: a name has to be resolved before its route is sure. */
  readonly asksAddress: boolean;
}

/** Decided at once. */
export interface RulesPolicy extends EgressPolicy {
  decide(target: EgressTarget): EgressRoute;
}

/** The rules of a spec: the first that matches decides. Throws an `Error` for an unreadable pattern. */
export function egressPolicy({ rules = [], default: otherwise }: EgressSpec): RulesPolicy {
  const compiled = rules.map(({ pattern, route }) => {
    const { host, range } = parseEgressPattern(pattern);
    const names = range !== undefined || host !== undefined && !host.includes("*");
    return { matches: egressMatch(pattern), names, range, route };
  });
  const rule = (target: EgressTarget) => compiled.find(({ matches }) => matches(target));
  return {
    decide: (target) => rule(target)?.route ?? otherwise ?? DEFAULT_EGRESS_ROUTE,
    names: (target) => rule(target)?.names === true,
    asksAddress: compiled.some(({ range }) => range !== undefined),
  };
}
