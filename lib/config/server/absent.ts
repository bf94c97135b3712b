/**
 * SPEC's variables whose subsystem this build does not have. They are known, parsed and refused by name:
 * a server that ignored SVC_EGRESS_POLICY would be open where its owner thinks it is closed.
 */
import type { AnyOption } from "../load.ts";
import { oneOf } from "../checks.ts";
import type { Kinds } from "../option.ts";

type Row = [
  variable: string,
  kind: keyof Kinds,
  help: string,
  more?: {
    flag?: string;
    default?: Kinds[keyof Kinds];
    negatable?: boolean;
    env?: string[];
    verbatim?: boolean;
    check?: (value: never, source: string) => Kinds[keyof Kinds];
  },
];

const off = { default: false };

const TABLES: [section: string, absent: string, rows: Row[]][] = [
  ["Authentication", "the caretaker", [
    ["SVC_CLIENT_TOKEN", "string", "Token of the caretaker's Docker-API proxy."],
    ["SVC_CLIENT_TOKEN_SECRET", "string", "Cluster Secret that holds the client token."],
    ["SVC_CARETAKER_TOKEN", "string", "Token of caretaker callbacks."],
    ["SVC_CARETAKER_TOKEN_SECRET", "string", "Cluster Secret that holds the caretaker token."],
    ["SVC_CARETAKER_TLS_SECRET", "string", "Cluster Secret with the caretaker's TLS material."],
  ]],
  ["Garbage collection", "the leader gate of garbage collection", [
    ["SVC_GC_LEASE", "string", "Leader gate: namespace/name, or kube. Requires SVC_GC_INTERVAL."],
  ]],
  ["Remote file cache", "the remote file cache", [
    ["SVC_FILE_CACHE", "bool", "On-disk cache of immutable remote reads.", {
      flag: "file-cache",
      default: false,
    }],
    ["SVC_FILE_CACHE_DIR", "string", "Its directory.", { flag: "file-cache-dir" }],
    ["SVC_FILE_CACHE_CHUNK_SIZE", "bytes", "Its block size.", {
      flag: "file-cache-chunk-size",
      default: 1048576,
    }],
    ["SVC_FILE_CACHE_MAX_BYTES", "bytes", "Its size cap.", { flag: "file-cache-max-bytes" }],
    ["SVC_BLOCK_COHERENCE", "string", "Options of writable mounts: subhash, defer, subfill."],
    ["SVC_BLOCK_READAHEAD", "bytes", "Byte cap of adaptive prefetch."],
  ]],
  ["Build workers", "the remote snapshotter", [
    ["SVC_SNAPSHOTTER_TRACE", "bool", "Traces the remote snapshotter.", off],
  ]],
  ["Companions and egress", "egress and companions", [
    ["SVC_EGRESS_POLICY", "string", "Which egress gateway routes are permitted."],
    ["SVC_EGRESS_GATEWAY", "bool", "Marks this server as an egress gateway.", off],
    ["SVC_CREDENTIALS_URL", "string", "Endpoint of generic credential delivery."],
    ["SVC_CARETAKER_CONFIG", "string", "Roles of a caretaker, as JSON."],
    ["SVC_AGENT_IMAGE", "string", "Image of sidecars and companions."],
  ]],
  ["Docker backend", "the dockerhost backend", [
    ["SVC_DOCKER_REMOTE", "bool", "Companion for a daemon on another host.", off],
  ]],
  ["Podman backend", "the podman backend", [
    ["SVC_PODMAN_SOCKET", "string", "Podman API endpoint."],
    ["SVC_PODMAN_SERVICE", "bool", "Run a podman API service.", off],
    ["SVC_PODMAN_REMOTE", "bool", "Companion for podman.", off],
  ]],
  ["Containerd backend", "the containerd backend", [
    ["SVC_CONTAINERD_INSECURE_REGISTRIES", "list", "Registries over plain HTTP."],
    ["SVC_CONTAINERD_REMOTE", "bool", "Remote companion.", off],
    ["SVC_CONTAINERD_LOG_MAX_BYTES", "bytes", "Log rotation size.", { default: 16 * 1024 ** 2 }],
  ]],
  ["Incus backend", "the incus backend", [
    ["SVC_INCUS_SOCKET", "string", "Its socket.", { default: "/var/lib/incus/unix.socket" }],
    ["SVC_INCUS_PROJECT", "string", "Project of the instances.", { default: "default" }],
    ["SVC_INCUS_STORAGE_POOL", "string", "Pool of volumes.", { default: "default" }],
    ["SVC_INCUS_INSECURE_REGISTRIES", "string", "Registries over plain HTTP."],
    ["SVC_INCUS_REMOTE", "bool", "Companion instances.", off],
  ]],
  ["Kubernetes backend", "the kubernetes backend", [
    ["SVC_K8S_NAMESPACE", "string", "Namespace deployed into."],
    ["SVC_K8S_NET_DRIVER", "string", "Driver of user networks.", {
      default: "services",
      check: oneOf(["services", "bridge", "ipvlan", "macvlan", "cilium"]),
    }],
    ["SVC_K8S_NET_STRICT", "bool", "Fail where a network cannot be realized.", off],
    ["SVC_K8S_POLICY_CNI", "bool", "NetworkPolicy-based isolation.", off],
    ["SVC_K8S_IMAGE_PULL_POLICY", "string", "Overrides imagePullPolicy."],
    ["SVC_K8S_SIDECAR_IMAGE", "string", "Image of the caretaker sidecar."],
    ["SVC_KNATIVE_STRICT", "bool", "Fail without Knative serving.", off],
    ["SVC_KUBE_QPS", "int", "Cluster client requests a second.", { default: 50 }],
    ["SVC_KUBE_BURST", "int", "Cluster client burst.", { default: 100 }],
  ]],
  ["Ingress", "the kubernetes backend", [
    ["SVC_INGRESS_CLASS", "string", "Default IngressClassName."],
    ["SVC_INGRESS_TLS_ISSUER", "string", "Default certificate issuer."],
    ["SVC_INGRESS_CONTROLLER", "string", "Ingress controller Service."],
  ]],
  ["Hub", "the hub", [
    ["SVC_HUB_STORE", "string", "Catalog store; kube for the cluster's."],
    ["SVC_HUB_REDIS", "string", "URL of a distributed catalog store."],
    ["SVC_HUB_FORWARD_URL", "string", "Where a replica forwards relay traffic."],
    ["SVC_HUB_FORWARD_CA", "string", "PEM CA bundle of that endpoint."],
    ["SVC_HUB_POLICY", "string", "Who may reach which service."],
    ["SVC_HUB_REGISTER_POLICY", "string", "Who may register services."],
  ]],
  ["Observability", "observability", [
    ["SVC_OTEL", "bool", "OpenTelemetry export.", { flag: "otel", default: false }],
    ["SVC_METRICS_PROMETHEUS", "bool", "Prometheus endpoint.", off],
    ["SVC_OBS", "bool", "Built-in store of logs and telemetry.", {
      flag: "obs",
      negatable: true,
      default: false,
    }],
    ["SVC_OBS_DIR", "string", "Its directory.", { flag: "obs-dir" }],
    ["SVC_OBS_RECORD_LOGS", "bool", "Record workloads' output.", {
      flag: "obs-record-logs",
      negatable: true,
      default: true,
    }],
    ["SVC_OBS_RECORD_METRICS", "bool", "Sample workloads' usage.", {
      flag: "obs-record-metrics",
      negatable: true,
      default: true,
    }],
    ["SVC_OBS_EXPORT_ENDPOINT", "string", "Upstream OTLP/HTTP backend.", {
      flag: "obs-export-endpoint",
    }],
    ["SVC_OBS_EXPORT_HEADERS", "list", "KEY=VALUE header of every export; repeatable.", {
      flag: "obs-export-header",
      verbatim: true,
    }],
    ["SVC_OBS_EXPORT_INSECURE", "bool", "Skip TLS verification upstream.", {
      flag: "obs-export-insecure",
      default: false,
    }],
    ["SVC_OBS_RETENTION", "duration", "Drop what is older.", {
      flag: "obs-retention",
      default: 168 * 3_600_000,
    }],
    ["SVC_OBS_MAX_BYTES", "bytes", "Size cap of the store.", {
      flag: "obs-max-bytes",
      default: 536870912,
    }],
    ["SVC_OBS_METRICS_INTERVAL", "duration", "Sampling interval.", {
      flag: "obs-metrics-interval",
      default: 15_000,
    }],
  ]],
];

const camelCase = (variable: string) =>
  variable.slice("SVC_".length).toLowerCase()
    .replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

export const ABSENT: readonly AnyOption[] = TABLES.flatMap(([section, absent, rows]) =>
  rows.map(([variable, kind, help, more = {}]) =>
    // The rows pair kinds with defaults and checks of that kind; server_options_test.ts loads each.
    ({
      ...more,
      key: camelCase(variable),
      kind,
      env: [variable],
      section,
      help,
      absent,
    }) as AnyOption
  )
);
