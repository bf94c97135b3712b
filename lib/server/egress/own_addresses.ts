/** Addresses of this machine and of its workloads: a gateway dials them only where its policy names a range. */
import { BlockList, isIP } from "node:net";
import { isOwnBridge } from "../../runtime/network.ts";

/** As they are now: interfaces come and go with deployments. */
export function ownAddresses(address: string): boolean {
  const family = isIP(address) === 6 ? "ipv6" : "ipv4";
  return Deno.networkInterfaces().some((one) => {
    if (one.address === address) return true;
    if (!isOwnBridge(one.name) || !one.cidr) return false;
    const [subnet, bits] = one.cidr.split("/");
    if (isIP(subnet) !== isIP(address)) return false;
    const list = new BlockList();
    list.addSubnet(subnet, Number(bits), family);
    return list.check(address, family);
  });
}
