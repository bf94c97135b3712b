/** SPEC "Deploy backend (common)" and "Bare backend", as far as this build has them. */
import { invalid, notNegative, oneOf, pathPrefixes, positive } from "../checks.ts";
import type { AnyOption } from "../load.ts";

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

/** Those of lib/deploy/privileges.ts, which says what each of them is. */
export const PRIVILEGED_KINDS: readonly string[] = [
  "privileged",
  "pidMode",
  "ipcMode",
  "networks",
  "devices",
  "capAdd",
  "securityOpt",
  "sysctls",
  "volumes",
];

/** Milliseconds. */
const MAX_GRACE = 24 * 3_600_000;

const common = "Deploy backend";
const cni = "Container networks";
const bare = "Bare backend";

export const DEPLOY = [
  {
    key: "allowBindSources",
    kind: "list",
    env: ["SVC_ALLOW_BIND_SOURCES"],
    default: [],
    defaultText: "deny",
    section: common,
    help: "Host-path prefixes, separated by colons or commas, that bind mounts may take their " +
      "source from.",
    check: pathPrefixes,
  },
  {
    key: "allowPrivileged",
    kind: "list",
    env: ["SVC_ALLOW_PRIVILEGED"],
    default: [],
    defaultText: "deny",
    section: common,
    help:
      "What workloads may ask for that can amount to root on the host: 1 for all of it, or a list of " +
      `kinds, named as the spec's fields: ${
        PRIVILEGED_KINDS.join(", ")
      }. It holds for every start by ` +
      "this server: a workload that runs already goes on, and is not started again.",
    check: (value, source) => {
      if (value.length === 1 && ["1", "true"].includes(value[0])) return [...PRIVILEGED_KINDS];
      if (value.length === 1 && ["0", "false"].includes(value[0])) return [];
      for (const word of value) oneOf(PRIVILEGED_KINDS)(word, source);
      return value;
    },
  },
  {
    key: "workloadStartTimeout",
    kind: "duration",
    env: ["SVC_WORKLOAD_START_TIMEOUT"],
    default: 60_000,
    defaultText: "1m",
    placeholder: "DURATION",
    section: common,
    help:
      "How long the runtime may take to have a container's own process, or a command of exec or of a " +
      "health check, begin; then it is ended. What has begun runs as long as it likes.",
    check: positive,
  },
  {
    key: "workloadPidsLimit",
    kind: "int",
    env: ["SVC_WORKLOAD_PIDS_LIMIT"],
    default: 4096,
    section: common,
    help: "Processes and threads that one instance may have at once. 0: no limit but the host's.",
    check: notNegative,
  },
  {
    key: "sessionGrace",
    kind: "duration",
    env: ["SVC_SESSION_GRACE"],
    default: 30_000,
    placeholder: "DURATION",
    section: common,
    help:
      "How long the deployment of a session outlives its caller's connection, and a restart of " +
      "the server, before it is removed.",
    check: (value, source) => {
      if (value >= 0 && value <= MAX_GRACE) return value;
      throw invalid(source, "it is not between 0s and 24h");
    },
  },
  {
    key: "cniBinDir",
    kind: "string",
    env: ["SVC_CNI_BIN_DIR", "CNI_PATH"],
    default: "/opt/cni/bin",
    section: cni,
    help: "Directory of the CNI plugins; several may be given, separated by colons.",
  },
  {
    key: "cniSubnetBase",
    kind: "string",
    env: ["SVC_CNI_SUBNET_BASE"],
    default: "10.4",
    section: cni,
    help: "Base of the /24 carved per network.",
    check: subnetBase,
  },
  {
    key: "bareRuntime",
    kind: "string",
    env: ["SVC_BARE_RUNTIME"],
    default: "runc",
    section: bare,
    help: "OCI runtime that is driven directly: runc, crun, youki, runsc, or the path of one. " +
      "Validated at start.",
  },
  {
    key: "bareStatsSource",
    kind: "string",
    env: ["SVC_BARE_STATS_SOURCE"],
    defaultText: "by the runtime's name",
    section: bare,
    help: "Where stats are read: runtime or cgroup.",
    check: oneOf(["runtime", "cgroup"]),
    absent: "sampling of workloads",
  },
  {
    key: "bareSnapshotter",
    kind: "string",
    env: ["SVC_BARE_SNAPSHOTTER"],
    defaultText: "overlay, with native as the fallback",
    section: bare,
    help: "How root file systems are made: overlay, or native where overlay on overlay is refused.",
    check: (value, source) =>
      oneOf(["overlay", "native"])(value === "overlayfs" ? "overlay" : value, source),
  },
  {
    key: "bareInsecureRegistries",
    kind: "list",
    env: ["SVC_BARE_INSECURE_REGISTRIES"],
    default: [],
    defaultText: "localhost only",
    section: bare,
    help: "Comma-separated host[:port] that images are pulled from over plain HTTP.",
  },
  {
    key: "bareSystemdCgroup",
    kind: "bool",
    env: ["SVC_BARE_SYSTEMD_CGROUP"],
    default: false,
    section: bare,
    help: "Use the runtime's systemd cgroup driver.",
    absent: "the systemd cgroup driver",
  },
  {
    key: "bareDns",
    kind: "bool",
    env: ["SVC_BARE_DNS"],
    default: true,
    section: bare,
    help: "Answer the containers' DNS on their networks' gateways; else names come from hosts " +
      "files only.",
  },
  {
    key: "bareShim",
    kind: "bool",
    env: ["SVC_BARE_SHIM"],
    default: false,
    section: bare,
    help: "A detached supervisor per container that survives a restart of the server.",
    absent: "the supervision shim",
  },
  {
    key: "bareRemote",
    kind: "bool",
    env: ["SVC_BARE_REMOTE"],
    default: false,
    section: bare,
    help: "Remote companion per instance.",
    absent: "the remote companion",
  },
] as const satisfies readonly AnyOption[];
