/**
 * Bridges of container engines: all bridges of this host that are not svc's own, and that lead to nothing but what is
 * on this host.
 */
import { type Link, links } from "../sys/links.ts";
import { isOwnBridge } from "./bridge_network.ts";

/** How names that Docker, nerdctl, podman, LXD and Incus give begin: bridges that are to come have them, too. */
const BEGINNINGS = ["docker", "br-", "nerdctl", "podman", "cni-podman", "lxdbr", "incusbr"];

/** What engines call their bridges: such a one is an engine's, whatever somebody has made a port of it. */
const NAMED =
  /^(docker\d+|docker_gwbridge|br-[\da-f]{12}|(nerdctl|(cni-)?podman|lxdbr|incusbr)\d+|svc[\da-f]{12})$/;

/** Kinds of ports behind which are containers and virtual machines of this host. */
const WITHIN = ["veth", "tun"];

/** Links by which the host's default routes lead: a bridge among them is the host's way out, whatever its ports are. */
function waysOut(): string[] {
  // This thread's network: it may have entered another one than the process was started in.
  const table = Deno.readTextFileSync("/proc/thread-self/net/route");
  const rows = table.split("\n").slice(1).map((row) => row.split("\t"));
  return rows.flatMap(([name, to, , , , , , mask]) =>
    to === "00000000" && mask === "00000000" ? name : []
  );
}

export interface HostLinks {
  links: readonly Link[];
  waysOut: readonly string[];
}

const hostLinks = (): HostLinks =>
  Deno.build.os === "linux" ? { links: links(), waysOut: waysOut() } : { links: [], waysOut: [] };

/** The names of engines' bridges that are there. */
export function engineBridges({ links, waysOut }: HostLinks = hostLinks()): Set<string> {
  const leadOut = new Set(
    links.flatMap(({ kind = "", master }) =>
      master === undefined || WITHIN.includes(kind) ? [] : master
    ),
  );
  const found = links.filter(({ index, name, kind }) =>
    NAMED.test(name) ||
    kind === "bridge" && !isOwnBridge(name) && !leadOut.has(index) && !waysOut.includes(name)
  );
  return new Set(found.map(({ name }) => name));
}

/**
 * The bridges as iptables names them. "docker+" stands for those to come, too; where another interface of the host
 * begins like that (br-lan), for those that are there.
 */
export function bridgePatterns(host: HostLinks = hostLinks()): string[] {
  const all = [...engineBridges(host)];
  const names = host.links.map(({ name }) => name);
  const whole = BEGINNINGS.filter((beginning) =>
    names.every((name) => !name.startsWith(beginning) || all.includes(name))
  );
  const rest = all.filter((name) => !whole.some((beginning) => name.startsWith(beginning)));
  return [...whole.map((beginning) => `${beginning}+`), ...rest];
}
