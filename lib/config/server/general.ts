/** SPEC "General and listener": the process itself. */
import { LOG_LEVELS } from "../../base/log.ts";
import { parseAddress } from "../address.ts";
import { oneOf, pathPairs, registryHost, urlOf } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "General and listener";

/** The listener's options. */
export const LISTENER = optionTable([
  {
    key: "addr",
    kind: "string",
    flag: "addr",
    env: ["SVC_ADDR"],
    default: ":5000",
    placeholder: "[HOST]:PORT",
    section,
    help: "HTTP listen address of the registry and the management API. Without a host: every " +
      "interface; 127.0.0.1:5000 restricts it to this machine.",
    check: (value, source) => (parseAddress(value, source), value),
  },
]);

/** Identity, folders and logging of the process. */
export const PROCESS = optionTable([
  {
    key: "dataDir",
    kind: "string",
    flag: "data-dir",
    env: ["SVC_DATA"],
    defaultText: "/var/lib/svc as root, else the user's data directory",
    placeholder: "DIR",
    section,
    help: "Server data directory: registry store (when storage is a path or unset), uploads in " +
      "progress, build cache, backend state.",
  },
  {
    key: "rootless",
    kind: "bool",
    flag: "rootless",
    env: ["SVC_ROOTLESS"],
    default: false,
    section,
    help:
      "Run the build engine in rootless mode (user namespaces): as an ordinary user, with the " +
      "ids that /etc/subuid and /etc/subgid give to that user. Needs newuidmap and newgidmap.",
  },
  {
    key: "logLevel",
    kind: "string",
    env: ["SVC_LOG_LEVEL"],
    default: "info",
    section,
    help: "Lowest level that is logged: debug, info, warn or error.",
    check: oneOf(LOG_LEVELS),
  },
  {
    key: "replicaId",
    kind: "string",
    env: ["SVC_REPLICA_ID"],
    section,
    help: "Stable identity of this replica among several.",
    absent: "running several replicas",
  },
]);

/** Addresses under which others reach the server. */
export const ADVERTISED = optionTable([
  {
    key: "advertiseUrl",
    kind: "string",
    env: ["SVC_ADVERTISE_URL"],
    section,
    help: "Server URL that a mount-agent or caretaker sidecar dials back to.",
    check: urlOf("http", "https", "ws", "wss"),
  },
  {
    key: "advertiseRegistry",
    kind: "string",
    env: ["SVC_ADVERTISE_REGISTRY"],
    defaultText: "derived",
    section,
    help: "host[:port], with a scheme where needed, told to clients as the registry that deploy " +
      "targets can pull from.",
    check: registryHost,
  },
]);

/** The companions of instances. */
export const COMPANIONS = optionTable([
  {
    key: "agentImage",
    kind: "string",
    env: ["SVC_AGENT_IMAGE"],
    section: "Companions and egress",
    help: "Image of companions, as svc image agent makes it.",
  },
]);

/** Facts about the host that a server in a container needs. */
export const CONTAINED = optionTable([
  {
    key: "hostPathMap",
    kind: "list",
    env: ["SVC_HOST_PATH_MAP"],
    defaultText: "auto-detected",
    section,
    help:
      "Comma-separated container-path=host-path pairs: how this server's paths appear on the host, for " +
      "a server in a container that uses the host's container engine. The server asks the engine about " +
      "all other paths.",
    check: pathPairs,
  },
  {
    key: "hostNetwork",
    kind: "string",
    env: ["SVC_HOST_NETWORK"],
    defaultText: "auto-detected",
    section,
    help:
      "1 or 0: whether this server's container shares the host's network namespace. With 0, ports that " +
      "bare and containerd publish are reachable inside the container only. Unset: a server in a " +
      "container with a network of its own refuses to start with them.",
    check: oneOf(["0", "1"]),
  },
]);
