/** Forwarding by this host, which bridge networks need. */
import { runOk } from "../base/process.ts";
import type { Family } from "./rule_tables.ts";

const SYSCTLS = "/proc/sys/net";

/** The settings of each family; the last one tells whether it is on. */
const SWITCHES: Record<Family, string[]> = {
  4: ["ipv4/ip_forward"],
  6: ["ipv6/conf/default/forwarding", "ipv6/conf/all/forwarding"],
};

/** True where this kernel has IPv6, and it is not switched off. */
export async function hasIPv6(): Promise<boolean> {
  // Our own: the kernel's switch.
  const off = await Deno.readTextFile(`${SYSCTLS}/ipv6/conf/all/disable_ipv6`).catch(() => "1");
  return off.trim() === "0";
}

/**
 * Turns forwarding on where it is off, as docker does: what crosses this host is dropped from then on by the
 * policy of the filter table's chain FORWARD, but for the traffic of the networks, so that the host becomes no
 * router for others. `tell` is called where something was changed.
 */
export async function forward(family: Family, tell: (text: string) => void): Promise<void> {
  const switches = SWITCHES[family];
  // Our own: the kernel's switch.
  if ((await Deno.readTextFile(`${SYSCTLS}/${switches.at(-1)}`)).trim() === "1") return;
  // First the policy: there is no moment in which the host forwards for everybody.
  const program = family === 6 ? "ip6tables" : "iptables";
  await runOk(`Cannot forward IPv${family}`, program, ["-w", "-P", "FORWARD", "DROP"]);
  for (const name of switches) await Deno.writeTextFile(`${SYSCTLS}/${name}`, "1");
  tell(
    `IPv${family} forwarding was off and is on now, for bridge networks; the firewall's policy for other ` +
      "forwarded packets is DROP" +
      (family === 6
        ? ". Interfaces with accept_ra=1 take no routes from router advertisements any more"
        : ""),
  );
}
