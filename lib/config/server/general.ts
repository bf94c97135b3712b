/** SPEC "General and listener". */
import { LOG_LEVELS } from "../../base/log.ts";
import { parseAddress } from "../address.ts";
import { oneOf, pathPairs, registryHost, urlOf, visible } from "../checks.ts";
import type { AnyOption } from "../load.ts";

const section = "General and listener";

/** What SVC_DEPLOY_BACKEND is where nobody sets it. */
export const DEFAULT_BACKEND = "dockerhost";

export const GENERAL = [
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
    key: "builderUrl",
    kind: "string",
    flag: "builder-url",
    env: ["SVC_BUILDER_URL"],
    placeholder: "URL",
    section,
    help:
      "Delegate builds to an upstream builder, ws://HOST:PORT, instead of building in-process. " +
      "A token that it asks for may stand before an @, as SVC_BUILDER_TOKEN.",
    check: urlOf("ws", "wss"),
  },
  {
    key: "builderToken",
    kind: "string",
    env: ["SVC_BUILDER_TOKEN"],
    section,
    help:
      "This server's bearer token at the builder of SVC_BUILDER_URL, where that asks for a credential. " +
      "Its identity there needs the action build.",
    check: visible,
  },
  {
    key: "builderAuto",
    kind: "bool",
    flag: "builder-auto",
    negatable: true,
    env: ["SVC_BUILDER_AUTO"],
    default: true,
    section,
    help: "Start a privileged builder container where the in-process engine cannot run and no " +
      "builder URL is set. This build has no such builder yet: there, builds fail and say why.",
  },
  {
    key: "builderImage",
    kind: "string",
    flag: "builder-image",
    env: ["SVC_BUILDER_IMAGE"],
    defaultText: "self-built",
    placeholder: "IMAGE",
    section,
    help: "Pin a published image as the builder instead of building one from the running binary.",
    absent: "the containerized builder",
  },
  {
    key: "builderBaseImage",
    kind: "string",
    flag: "builder-base-image",
    env: ["SVC_BUILDER_BASE_IMAGE"],
    defaultText: "host distribution",
    placeholder: "IMAGE",
    section,
    help: "Base image for the self-built builder image.",
    absent: "the containerized builder",
  },
  {
    key: "logLevel",
    kind: "string",
    env: ["SVC_LOG_LEVEL"],
    default: "info",
    section,
    help: "Least level that is logged: debug, info, warn or error.",
    check: oneOf(LOG_LEVELS),
  },
  {
    key: "advertiseUrl",
    kind: "string",
    env: ["SVC_ADVERTISE_URL"],
    section,
    help: "Server URL that a mount-agent or caretaker sidecar dials back to.",
    check: urlOf("http", "https", "ws", "wss"),
    absent: "the caretaker sidecar",
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
  {
    key: "hostPathMap",
    kind: "list",
    env: ["SVC_HOST_PATH_MAP"],
    defaultText: "auto-detected",
    section,
    help: "Comma-separated container-path=host-path pairs: how this server's paths appear on the " +
      "host, for a server in a container against the host's container engine.",
    check: pathPairs,
    absent: "a server in a container of the host's engine",
  },
  {
    key: "hostNetwork",
    kind: "string",
    env: ["SVC_HOST_NETWORK"],
    defaultText: "auto-detected",
    section,
    help: "1 or 0: whether this server's container shares the host's network namespace. With 0 " +
      "published ports are reachable inside the container only.",
    check: oneOf(["0", "1"]),
  },
  {
    key: "replicaId",
    kind: "string",
    env: ["SVC_REPLICA_ID"],
    section,
    help: "Stable identity of this replica among several.",
    absent: "running several replicas",
  },
  {
    key: "deployBackend",
    kind: "string",
    env: ["SVC_DEPLOY_BACKEND"],
    default: DEFAULT_BACKEND,
    section,
    help:
      "Where deployments run: dockerhost, podman, kubernetes (k8s), containerd, bare or incus. " +
      "This build has bare.",
  },
] as const satisfies readonly AnyOption[];
