/** SPEC "Containerd backend", without the options shared with builds (lib/config/server/containerd.ts). */
import { positive } from "../../../lib/config/checks.ts";
import { CONTAINERD as DAEMON } from "../../../lib/config/server/containerd.ts";
import { CONTAINED } from "../../../lib/config/server/general.ts";
import { NETWORKS } from "../../../lib/config/server/networks.ts";
import { RUNTIME } from "../../../lib/config/server/runtime.ts";
import { WORKLOADS } from "../../../lib/config/server/workloads.ts";
import { optionTable, type SettingsOf } from "../../../lib/config/table.ts";

const section = "Containerd backend";

export const CONTAINERD = optionTable([
  {
    key: "containerdLogMaxBytes",
    kind: "bytes",
    env: ["SVC_CONTAINERD_LOG_MAX_BYTES"],
    default: 16 * 1024 ** 2,
    section,
    help: "Size at which an instance's log is rotated, by the program that writes it; one older " +
      "file is kept.",
    check: positive,
  },
  {
    key: "containerdRemote",
    kind: "bool",
    env: ["SVC_CONTAINERD_REMOTE"],
    default: false,
    section,
    help:
      "A companion beside each instance: svc port-forward, tunnels and svc exec --forward-agent go " +
      "through it. Needs SVC_AGENT_IMAGE and SVC_ADVERTISE_URL.",
  },
]);

/** The options that the backend reads. */
export const CONTAINERD_READS = [
  CONTAINERD,
  DAEMON,
  RUNTIME,
  NETWORKS,
  WORKLOADS,
  CONTAINED,
] as const;

export type ContainerdSettings = SettingsOf<typeof CONTAINERD_READS>;
