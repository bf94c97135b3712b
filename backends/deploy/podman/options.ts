/** SPEC "Deploy backend (common)". */
import { BUILD } from "../../../lib/config/server/build.ts";
import { optionTable, type SettingsOf } from "../../../lib/config/table.ts";
import { CONTAINED } from "../../../lib/config/server/general.ts";
import { WORKLOADS } from "../../../lib/config/server/workloads.ts";

const section = "Podman backend";

export const PODMAN = optionTable([
  {
    key: "podmanSocket",
    kind: "string",
    env: ["SVC_PODMAN_SOCKET"],
    defaultText: "none",
    section,
    help: "Where podman's API service listens: a path, unix:///path, tcp://host:port, or " +
      "ssh://user@host[:port][/path] (by default root's socket there). Nothing is looked for: " +
      "either this or SVC_PODMAN_SERVICE has to be set.",
  },
  {
    key: "podmanService",
    kind: "bool",
    env: ["SVC_PODMAN_SERVICE"],
    default: false,
    section,
    help: "Run podman's API service on a private socket, watch it, and end it with the server. " +
      "Needs podman on PATH. Not together with SVC_PODMAN_SOCKET.",
  },
  {
    key: "podmanRemote",
    kind: "bool",
    env: ["SVC_PODMAN_REMOTE"],
    default: false,
    section,
    help:
      "Each instance has a companion in its network: port-forward, ingress and SSH agents go through " +
      "it, also where containers' addresses lead nowhere from the server, as with a rootless podman. " +
      "Needs SVC_AGENT_IMAGE and SVC_ADVERTISE_URL.",
  },
]);

/** The options that the backend reads. */
export const PODMAN_READS = [PODMAN, BUILD, WORKLOADS, CONTAINED] as const;

export type PodmanSettings = SettingsOf<typeof PODMAN_READS>;
