/** `--add-host`: names for the steps' /etc/hosts. */
import { isIP } from "node:net";
import { SvcError } from "../../base/errors.ts";

/** Stands for this host's address, as the step's network reaches it. */
export const HOST_GATEWAY = "host-gateway";

/** "name:address" or "name=address", an IPv6 address with or without brackets. Throws `argument_invalid`. */
export function parseHosts(lines: string[]): { name: string; address: string }[] {
  return lines.map((line) => {
    const [, name, written] = /^([^:=\s]+)[:=](.+)$/.exec(line) ?? [];
    const address = written?.replace(/^\[(.*)\]$/, "$1");
    if (name === undefined || address !== HOST_GATEWAY && isIP(address) === 0) {
      throw new SvcError(
        "argument_invalid",
        `Cannot use --add-host ${line}: expected NAME:ADDRESS, such as db:10.1.2.3 or db:host-gateway`,
      );
    }
    return { name, address };
  });
}
