/** SPEC "Incus backend". */
import { BUILD } from "../../../lib/config/server/build.ts";
import { WORKLOADS } from "../../../lib/config/server/workloads.ts";
import { optionTable, type SettingsOf } from "../../../lib/config/table.ts";

const section = "Incus backend";

export const INCUS = optionTable([
  {
    key: "incusSocket",
    kind: "string",
    env: ["SVC_INCUS_SOCKET"],
    default: "/var/lib/incus/unix.socket",
    section,
    help: "Path of the daemon's unix socket.",
  },
  {
    key: "incusProject",
    kind: "string",
    env: ["SVC_INCUS_PROJECT"],
    default: "default",
    section,
    help:
      "The project in which instances are made. Their root disks come from its default profile.",
  },
  {
    key: "incusStoragePool",
    kind: "string",
    env: ["SVC_INCUS_STORAGE_POOL"],
    default: "default",
    section,
    help: "The storage pool of deployments' volumes.",
  },
  {
    key: "incusInsecureRegistries",
    kind: "list",
    env: ["SVC_INCUS_INSECURE_REGISTRIES"],
    defaultText: "loopback only",
    section,
    help:
      "Registries, host[:port] separated by commas or spaces, that the daemon asks over plain " +
      "HTTP. Its host also needs an entry for each below /etc/containers/registries.conf.d.",
  },
  {
    key: "incusRemote",
    kind: "bool",
    env: ["SVC_INCUS_REMOTE"],
    default: false,
    section,
    help:
      "A companion beside each instance: svc port-forward, tunnels and svc exec --forward-agent go through it. " +
      "Needs SVC_AGENT_IMAGE and SVC_ADVERTISE_URL.",
  },
]);

/** The options that the backend reads. */
export const INCUS_READS = [INCUS, BUILD, WORKLOADS] as const;

export type IncusSettings = SettingsOf<typeof INCUS_READS>;
