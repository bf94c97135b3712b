/** Forwarding of IPv6 by this host, which a network with IPv6 needs. */
import { runOk } from "../base/process.ts";

const SYSCTLS = "/proc/sys/net/ipv6/conf";

/** True where this kernel has IPv6, and it is not switched off. */
export async function hasIPv6(): Promise<boolean> {
  const off = await Deno.readTextFile("/proc/sys/net/ipv6/conf/all/disable_ipv6").catch(() => "1");
  return off.trim() === "0";
}

/**
 * Turns forwarding on where it is off, as docker does: what crosses this host is dropped from then on by the
 * policy of the filter table's chain FORWARD, but for the traffic of the networks, so that the host becomes no
 * router for others. `tell` is called where something was changed.
 */
export async function forwardIPv6(tell: (text: string) => void): Promise<void> {
  if ((await Deno.readTextFile("/proc/sys/net/ipv6/conf/all/forwarding")).trim() === "1") return;
  // First the policy: there is no moment in which the host forwards for everybody.
  await runOk("Cannot forward IPv6", "ip6tables", ["-w", "-P", "FORWARD", "DROP"]);
  for (const which of ["default", "all"]) {
    await Deno.writeTextFile(`${SYSCTLS}/${which}/forwarding`, "1");
  }
  tell(
    "IPv6 forwarding was off and is on now, for networks with IPv6; the firewall's policy for other " +
      "forwarded packets is DROP. Interfaces with accept_ra=1 take no routes from router advertisements any more",
  );
}
