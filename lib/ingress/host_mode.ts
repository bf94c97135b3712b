/** How the public host of an ingress tunnel maps to the hosts that deployments declare (SPEC "Tunnels"). */
import type { HostMode, IngressAim } from "../api/tunnel.ts";
import { SvcError } from "../base/errors.ts";
import { asciiHost } from "./host_name.ts";

export interface HostWish {
  hostMode: HostMode;
  /** A declared host; checked by `wishOf`. */
  host?: string;
}

const refusal = (why: string, help?: string) =>
  new SvcError("argument_invalid", `Cannot open a tunnel to the ingress: ${why}`, { help });

const CHOOSE = "choose one with --host";

/** True where the host is declared; a wildcard matches any single label. */
function isDeclared(host: string, declared: readonly string[]): boolean {
  return declared.includes(host) || declared.includes(`*${host.slice(host.indexOf("."))}`);
}

const listed = (declared: readonly string[]) =>
  declared.length === 0 ? "no deployment declares one" : `declared are ${declared.join(", ")}`;

/** The only declared host; undefined where there are several, or a wildcard. */
function only(declared: readonly string[]): string | undefined {
  return declared.length === 1 && !declared[0].startsWith("*") ? declared[0] : undefined;
}

/** Throws `argument_invalid` for an invalid host, or one that no deployment declares. */
export function wishOf(
  hostMode: HostMode,
  host: string | undefined,
  declared: readonly string[],
): HostWish {
  if (host === undefined) return { hostMode };
  const name = asciiHost(host);
  if (name === undefined) throw refusal(`${JSON.stringify(host)} is not a host name`);
  if (!isDeclared(name, declared)) {
    throw refusal(`no deployment declares the host ${name}; ${listed(declared)}`);
  }
  return { hostMode, host: name };
}

/**
 * The aim as far as it is known before the public host is; undefined for `auto`. With `passthrough`, also the
 * host to ask the backend for, if there is one.
 */
export function aimBefore(
  { hostMode, host = undefined }: HostWish,
  declared: readonly string[],
): IngressAim | undefined {
  if (hostMode === "auto") return undefined;
  const chosen = host ?? only(declared);
  if (hostMode === "passthrough") {
    return { hostMode, ...(chosen !== undefined && { host: chosen }) };
  }
  if (chosen === undefined) {
    throw refusal(`${hostMode} needs one host, and ${listed(declared)}`, CHOOSE);
  }
  return { hostMode, host: chosen };
}

/** `auto`: a declared public host passes through; any other becomes an alias of the chosen host. */
export function aimOf(
  { host }: HostWish,
  declared: readonly string[],
  publicHost: string,
): IngressAim {
  if (isDeclared(publicHost, declared) && (host ?? publicHost) === publicHost) {
    return { hostMode: "passthrough" };
  }
  const chosen = host ?? only(declared);
  if (chosen !== undefined) return { hostMode: "alias", host: chosen };
  throw refusal(
    `its public host is ${publicHost}, and ${listed(declared)}`,
    `${CHOOSE}, or use --host-mode passthrough`,
  );
}
