/** Networks of this host for build steps and containers: SPEC "Containerd backend", SVC_CNI_…. */
import { invalid } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "Container networks";

function subnetBase(value: string, source: string): string {
  const parts = value.split(".");
  if (parts.length === 2 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256)) {
    return value;
  }
  throw invalid(
    source,
    `${JSON.stringify(value)} is not the start of a subnet; expected two numbers, such as 10.4`,
  );
}

export const NETWORKS = optionTable([
  {
    key: "cniBinDir",
    kind: "string",
    env: ["SVC_CNI_BIN_DIR", "CNI_PATH"],
    default: "/opt/cni/bin",
    section,
    help: "Directory of the CNI plugins; several may be given, separated by colons.",
  },
  {
    key: "cniSubnetBase",
    kind: "string",
    env: ["SVC_CNI_SUBNET_BASE"],
    default: "10.4",
    section,
    help: "First two numbers of the /24 subnets; each network gets one of them.",
    check: subnetBase,
  },
]);
