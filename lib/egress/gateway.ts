/** SVC_EGRESS_POLICY: where a gateway may dial, whatever the rules of a deployment say. */
import { isIP } from "node:net";
import { parseEgressPattern } from "../api/egress_pattern.ts";
import { SvcError } from "../base/errors.ts";
import { egressMatch, type EgressTarget } from "./policy.ts";

/** Addresses that lead into a machine or its next neighbours, the server's own among them. */
const INNER = [
  ...["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"],
  ...["::/128", "::1/128", "fe80::/10", "ff00::/8"],
].map((range) => egressMatch(range));

/** True for an address that no name leads to: only a range of the policy that contains it does. */
export const isInner = (address: string): boolean =>
  INNER.some((matches) => matches({ host: address, port: 0 }));

export interface GatewayPolicy {
  /** `target.address` is the address that would be dialled. */
  permits(target: EgressTarget & { address: string }): boolean;
}

/**
 * `entries`: patterns, `!` before those that refuse. `isOwn`: further addresses that no name leads to. Throws
 * `config_invalid`.
 */
export function gatewayPolicy(
  entries: readonly string[],
  isOwn: (address: string) => boolean,
): GatewayPolicy {
  const rules = entries.map((entry) => {
    const pattern = entry.replace(/^!/, "");
    try {
      return {
        permits: pattern === entry,
        ranged: parseEgressPattern(pattern).range !== undefined,
        matches: egressMatch(pattern),
      };
    } catch (cause) {
      throw new SvcError(
        "config_invalid",
        `Cannot read SVC_EGRESS_POLICY: ${JSON.stringify(entry)}: ${(cause as Error).message}`,
        { cause, help: "write patterns such as *.example.com:443, 10.0.0.0/8 or !:25" },
      );
    }
  });
  return {
    permits(target) {
      if (isIP(target.address) === 0) return false;
      const rule = rules.find(({ matches }) => matches(target));
      if (!rule?.permits) return false;
      return rule.ranged || !isInner(target.address) && !isOwn(target.address);
    },
  };
}
