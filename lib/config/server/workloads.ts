/** SPEC "Deploy backend (common)": options that apply to workloads on every backend. */
import { invalid, notNegative, oneOf, pathPrefixes, positive } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "Deploy backend";

/** The kinds in lib/deploy/privileges.ts, which explains each of them. */
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
  "labels",
];

/** Milliseconds. */
const MAX_GRACE = 24 * 3_600_000;

export const WORKLOADS = optionTable([
  {
    key: "allowBindSources",
    kind: "list",
    env: ["SVC_ALLOW_BIND_SOURCES"],
    default: [],
    defaultText: "deny",
    section,
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
    section,
    help:
      "Settings of workloads that can amount to root on the host. 1 permits all of them; a list permits " +
      `these kinds, named as the spec's fields: ${
        PRIVILEGED_KINDS.join(", ")
      }. It holds for every start by ` +
      "this server: a workload that runs already keeps running, and is not started again.",
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
    section,
    help:
      "Time limit for the runtime to start a container's main process, or a command of exec or of a " +
      "health check. A process that has started may run without a limit.",
    check: positive,
  },
  {
    key: "workloadPidsLimit",
    kind: "int",
    env: ["SVC_WORKLOAD_PIDS_LIMIT"],
    default: 4096,
    section,
    help: "Processes and threads that one instance may have at once. 0: no limit but the host's.",
    check: notNegative,
  },
]);

/** Deploy sessions. */
export const SESSIONS = optionTable([
  {
    key: "sessionGrace",
    kind: "duration",
    env: ["SVC_SESSION_GRACE"],
    default: 30_000,
    placeholder: "DURATION",
    section,
    help:
      "How long a session's deployment is kept after its caller's connection was lost, or the server " +
      "was restarted, before it is removed.",
    check: (value, source) => {
      if (value >= 0 && value <= MAX_GRACE) return value;
      throw invalid(source, "it is not between 0s and 24h");
    },
  },
]);
