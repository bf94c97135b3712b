/** SPEC "Bare backend", without the options shared with builds (lib/config/server/runtime.ts). */
import { oneOf } from "../../../lib/config/checks.ts";
import { CONTAINED } from "../../../lib/config/server/general.ts";
import { NETWORKS } from "../../../lib/config/server/networks.ts";
import { RUNTIME } from "../../../lib/config/server/runtime.ts";
import { WORKLOADS } from "../../../lib/config/server/workloads.ts";
import { optionTable, type SettingsOf } from "../../../lib/config/table.ts";

const section = "Bare backend";

export const BARE = optionTable([
  {
    key: "bareStatsSource",
    kind: "string",
    env: ["SVC_BARE_STATS_SOURCE"],
    defaultText: "by the runtime's name",
    section,
    help:
      "Where stats are read: runtime (its `events --stats`) or cgroup (the host's files). Default: " +
      "runtime for runsc, cgroup for all others.",
    check: oneOf(["runtime", "cgroup"]),
  },
  {
    key: "bareSystemdCgroup",
    kind: "bool",
    env: ["SVC_BARE_SYSTEMD_CGROUP"],
    default: false,
    section,
    help: "Use the runtime's systemd cgroup driver: systemd makes the containers' cgroups.",
  },
  {
    key: "bareDns",
    kind: "bool",
    env: ["SVC_BARE_DNS"],
    default: true,
    section,
    help:
      "Answer the containers' DNS queries on the gateways of their networks. Off: names come from " +
      "hosts files only.",
  },
  {
    key: "bareShim",
    kind: "bool",
    env: ["SVC_BARE_SHIM"],
    default: false,
    section,
    help: "Restart a container that ends while no server runs, by its policy.",
  },
  {
    key: "bareRemote",
    kind: "bool",
    env: ["SVC_BARE_REMOTE"],
    default: false,
    section,
    help:
      "A companion beside each instance: svc port-forward, tunnels and svc exec --forward-agent go " +
      "through it. Needs SVC_AGENT_IMAGE and SVC_ADVERTISE_URL.",
  },
]);

/** The options that the backend reads. */
export const BARE_READS = [BARE, RUNTIME, NETWORKS, WORKLOADS, CONTAINED] as const;

export type BareSettings = SettingsOf<typeof BARE_READS>;
