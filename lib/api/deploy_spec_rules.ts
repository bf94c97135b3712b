/** Rules between several fields of a deployment spec. */
import { posix } from "node:path";
import type { DeploySpec } from "./deploy_spec.ts";

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

function checkTargets({ mounts, volumes, tmpfs = [] }: DeploySpec, report: Report): void {
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

function checkNetworks({ networks }: DeploySpec, report: Report): void {
  for (const [i, { name }] of networks.entries()) {
    if (networks.findIndex((other) => other.name === name) < i) {
      report(["networks", i, "name"], "it is attached already");
    }
  }
}

/** Calls `report` for each rule that the spec breaks. */
export function checkRules(spec: DeploySpec, report: Report): void {
  for (const check of [checkName, checkTargets, checkLimits, checkMemory, checkNetworks]) {
    check(spec, report);
  }
}
