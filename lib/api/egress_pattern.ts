/** Patterns of egress rules, and the rules of the whole field. */
import { isIP } from "node:net";
import { EGRESS_MODES, type EgressSpec, PROXY_VARIABLES } from "./egress.ts";

/** A pattern of a rule: all members that are there have to match; without any it matches everything. */
export interface EgressPattern {
  /** Of names, in lower case; `*` stands for any characters, dots too. */
  host?: string;
  range?: EgressRange;
  port?: number;
}

/** Addresses whose first `bits` bits are those of `address`. */
export interface EgressRange {
  address: string;
  bits: number;
  family: "ipv4" | "ipv6";
}

/** `[address/bits]:port`, the brackets' form of an address or a range. */
const BRACKETS = /^\[([^\]]*)\](?::(.*))?$/;
const HOST = /^[a-z0-9_*]([a-z0-9_*-]*[a-z0-9_*])?(\.[a-z0-9_*]([a-z0-9_*-]*[a-z0-9_*])?)*$/;

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65535) throw new Error(`${JSON.stringify(text)} is no port`);
  return port;
}

function readRange(text: string): EgressRange {
  const [address, bits, ...more] = text.split("/");
  const version = isIP(address);
  const most = version === 6 ? 128 : 32;
  const size = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : NaN;
  if (version === 0 || address.includes("%") || more.length > 0 || !(size <= most)) {
    throw new Error(`${JSON.stringify(text)} is no range of addresses`);
  }
  return { address, bits: size, family: version === 6 ? "ipv6" : "ipv4" };
}

/**
 * Reads "*", "*.example.com", "example.com:443", ":443", "10.0.0.0/8", "10.1.2.3:53", "2001:db8::/32",
 * "[2001:db8::/32]:443". Throws an `Error` that says what is wrong with it.
 */
export function parseEgressPattern(text: string): EgressPattern {
  const whole = text.trim().toLowerCase();
  const bracketed = BRACKETS.exec(whole);
  if (bracketed) {
    const port = readPort(bracketed[2]);
    return { range: readRange(bracketed[1]), ...(port !== undefined && { port }) };
  }
  if (isIP(whole.split("/")[0]) === 6) return { range: readRange(whole) };
  const [host, digits, ...more] = whole.split(":");
  const port = readPort(digits);
  if (more.length > 0) throw new Error("an IPv6 address with a port stands in brackets");
  const rest = { ...(port !== undefined && { port }) };
  if (host === "") {
    if (port === undefined) throw new Error("it is empty");
    return rest;
  }
  // Addresses too, which no other name pattern matches: "10.*" would also be the name 10.example.com.
  if (host === "*") return rest;
  if (host.includes("/") || isIP(host) === 4) return { range: readRange(host), ...rest };
  // A range written wrong must not become a name that matches nothing.
  if (/^[\d.]+$/.test(host)) throw new Error(`${JSON.stringify(host)} is no address`);
  if (!HOST.test(host)) throw new Error(`${JSON.stringify(host)} is neither a host nor a range`);
  return { host, ...rest };
}

/** Calls `report` for each part of an `egress` field that cannot be. */
export function checkEgress(
  egress: EgressSpec,
  report: (path: (string | number)[], message: string) => void,
): void {
  const { mode, rules = [], default: otherwise, script, proxies, listenPort } = egress;
  if (mode === undefined) report(["mode"], `expected ${EGRESS_MODES.join(", ")}`);
  const set = { rules: rules.length > 0, default: otherwise, script, listenPort };
  if (mode === "env") {
    for (const [name, value] of Object.entries(set)) {
      if (value) report([name], "mode env routes nothing; use mode proxy or transparent");
    }
    for (const name of Object.keys(proxies ?? {})) {
      if (!isProxyVariable(name)) report(["proxies", name], "it is no proxy variable");
    }
  } else if (Object.keys(proxies ?? {}).length > 0) {
    report(["proxies"], "they are of mode env");
  }
  if (script && rules.length > 0) report(["script"], "a script decides alone; leave out the rules");
  for (const [i, { pattern }] of rules.entries()) {
    try {
      parseEgressPattern(pattern);
    } catch (error) {
      report(["rules", i, "pattern"], (error as Error).message);
    }
  }
}

const isProxyVariable = (name: string) =>
  (PROXY_VARIABLES as readonly string[]).includes(name.toUpperCase());
