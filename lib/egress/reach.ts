/** From a target to addresses that may be dialled: the decision holds for the addresses of a name too. */
import { isIP } from "node:net";
import type { EgressRoute } from "../api/egress.ts";
import { SvcError } from "../base/errors.ts";
import { joinHostPort } from "../base/host_port.ts";
import { egressHost, type EgressPolicy, type EgressTarget } from "./policy.ts";

/** The addresses of a name; throws where there are none. */
export type Lookup = (name: string, signal: AbortSignal) => Promise<string[]>;

/** With the machine's own resolver. */
export const systemLookup: Lookup = async (name) => {
  const { lookup } = await import("node:dns/promises");
  return (await lookup(name, { all: true })).map(({ address }) => address);
};

export const place = ({ host, port }: EgressTarget): string => joinHostPort(host, port);

/** Who refuses is part of the words: three places decide. */
export function refusedBy(who: string, target: EgressTarget, why: string): SvcError {
  return new SvcError("denied", `Cannot connect to ${place(target)}: ${why}`, {
    help: `change the deployment's egress rules, if it should be reached (decided by ${who})`,
  });
}

/** Throws `denied` unless the policy has the target take that route. */
export async function requireRoute(
  policy: EgressPolicy,
  target: EgressTarget,
  route: EgressRoute,
  who: string,
): Promise<void> {
  const decided = await policy.decide(target);
  if (decided === route && route !== "deny") return;
  const why = decided === "deny" ? "the egress rules deny it" : `its route is ${decided}`;
  throw refusedBy(who, target, why);
}

/**
 * The target's addresses for which the policy says that route, and `mayDial` nothing against it. Throws `denied`
 * where there are none, `upstream_failed` where the name has no address.
 */
export async function addressesFor(
  target: EgressTarget,
  { policy, route, who, lookup = systemLookup, mayDial = () => true, signal }: {
    policy: EgressPolicy;
    route: EgressRoute;
    /** "the server" */
    who: string;
    lookup?: Lookup;
    /** False: the dialler does not go there, whatever the policy says. */
    mayDial?: (address: string) => boolean;
    signal: AbortSignal;
  },
): Promise<string[]> {
  await requireRoute(policy, target, route, who);
  const found = isIP(target.host) === 0 ? await resolved(target, lookup, signal) : [target.host];
  const addresses = found.map((text) => egressHost(text)).filter((one) => one !== undefined);
  const routes = await Promise.all(
    addresses.map((address) => policy.decide({ ...target, address })),
  );
  const allowed = addresses.filter((address, index) => routes[index] === route && mayDial(address));
  if (allowed.length > 0) return allowed;
  throw refusedBy(who, target, `its address ${addresses.join(", ")} is not reached this way`);
}

async function resolved(
  target: EgressTarget,
  lookup: Lookup,
  signal: AbortSignal,
): Promise<string[]> {
  try {
    const found = await lookup(target.host, signal);
    if (found.length > 0) return found;
  } catch (cause) {
    signal.throwIfAborted();
    throw noHost(target, cause);
  }
  throw noHost(target);
}

const noHost = (target: EgressTarget, cause?: unknown) =>
  new SvcError("not_found", `Cannot connect to ${place(target)}: there is no host of that name`, {
    cause,
  });

/** The first connection that is made; throws the last failure. */
export async function firstOf<T>(
  addresses: readonly string[],
  dial: (address: string) => Promise<T>,
): Promise<T> {
  let failure: unknown;
  for (const address of addresses) {
    try {
      return await dial(address);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
