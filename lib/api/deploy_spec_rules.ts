/** Rules between several fields of a deployment spec. */
import { BlockList, isIP } from "node:net";
import { posix } from "node:path";
import { checkCredentials } from "./credentials.ts";
import type { DeploySpec } from "./deploy_spec.ts";
import { DEFAULT_EGRESS_PORT, isRelayed } from "./egress.ts";
import { checkEgress } from "./egress_pattern.ts";

type Report = (path: (string | number)[], message: string) => void;

const MOST = 63;

/** Instances are named NAME-NUMBER, which must be a DNS label and a host name. */
function checkName({ name, replicas }: DeploySpec, report: Report): void {
  const suffix = `-${Math.max(0, replicas - 1)}`;
  if (name.length + suffix.length <= MOST) return;
  report(
    ["name"],
    `expected at most ${
      MOST - suffix.length
    } characters: an instance is called NAME${suffix}, which is a ` +
      `DNS label of at most ${MOST}`,
  );
}

function checkTargets(
  { mounts, volumes, tmpfs = [], credentials }: DeploySpec,
  report: Report,
): void {
  const seen = new Map<string, string>();
  const look = (target: string, path: (string | number)[]) => {
    const normal = posix.normalize(`${target}/`);
    const other = seen.get(normal);
    const field = `${path[0]}[${path[1]}]`;
    if (normal === "/") report(path, "the root cannot be mounted over");
    else if (other) report(path, `${other} is mounted there already`);
    else seen.set(normal, field);
  };
  for (const [i, { target }] of mounts.entries()) look(target, ["mounts", i, "target"]);
  for (const [i, { target }] of volumes.entries()) look(target, ["volumes", i, "target"]);
  for (const [i, text] of tmpfs.entries()) look(text.split(":", 1)[0], ["tmpfs", i]);
  for (const [i, { deliver = [] }] of (credentials?.sources ?? []).entries()) {
    for (const [j, { kind, path }] of deliver.entries()) {
      if (kind === "file" && path) look(path, ["credentials", "sources", i, "deliver", j, "path"]);
    }
  }
}

function checkLimits({ ulimits = [] }: DeploySpec, report: Report): void {
  const amount = (limit: number) => limit < 0 ? Infinity : limit;
  for (const [i, { soft, hard }] of ulimits.entries()) {
    if (amount(soft) > amount(hard)) {
      report(["ulimits", i, "soft"], `expected at most the hard limit of ${hard}`);
    }
  }
}

function checkMemory({ resources }: DeploySpec, report: Report): void {
  const { memoryLimit = Infinity, reservedMemory = 0 } = resources ?? {};
  if (reservedMemory <= memoryLimit) return;
  report(["resources", "reservedMemory"], `expected at most the limit of ${memoryLimit}`);
}

/** Whether the range or the address lies in the subnet; both are texts of a caller's. */
function liesIn(subnet: string, inner: string): boolean {
  const [[from, size], [address, bits]] = [subnet, inner].map((text) => {
    const [, address = "", bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
    return [address, bits === undefined ? undefined : Number(bits)] as const;
  });
  const most = isIP(from) === 6 ? 128 : 32;
  if (isIP(from) === 0 || isIP(from) !== isIP(address) || size === undefined) return false;
  if (size > most || (bits ?? most) > most || (bits ?? most) < size) return false;
  const family = most === 128 ? "ipv6" : "ipv4";
  const range = new BlockList();
  range.addSubnet(from, size, family);
  return range.check(address, family);
}

function checkNetworks({ networks }: DeploySpec, report: Report): void {
  for (const [i, { name, subnet, ip, gateway, ipRange }] of networks.entries()) {
    if (networks.findIndex((other) => other.name === name) < i) {
      report(["networks", i, "name"], "it is attached already");
    }
    // An address alone is on the network as it is.
    for (const [field, value] of Object.entries({ gateway, ipRange, ...(subnet && { ip }) })) {
      if (!value) continue;
      if (!subnet) report(["networks", i, field], "it needs subnet");
      else if (!liesIn(subnet, value)) {
        report(["networks", i, field], `expected it to lie in the subnet ${subnet}`);
      }
    }
  }
}

/** What a relay beside the workload takes for itself: its port, and the workload's networks. */
function checkRelay({ egress, networks, ports, expose = [] }: DeploySpec, report: Report): void {
  if (!egress) return;
  checkEgress(egress, (path, message) => report(["egress", ...path], message));
  if (!isRelayed(egress)) return;
  if (networks.length > 0) {
    report(["networks"], "a workload whose egress is relayed is on a network of its own");
  }
  const listens = egress.listenPort ?? DEFAULT_EGRESS_PORT;
  for (const [field, all] of Object.entries({ ports, expose })) {
    const at = all.findIndex(({ container }) => container === listens);
    if (at >= 0) report([field, at], `egress.listenPort is ${listens} too`);
  }
}

/** Calls `report` for each rule that the spec breaks. */
export function checkRules(spec: DeploySpec, report: Report): void {
  const checks = [checkName, checkTargets, checkLimits, checkMemory, checkNetworks, checkRelay];
  for (const check of [...checks, checkCredentials]) {
    check(spec, report);
  }
}
