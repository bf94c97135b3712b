/** Subsystems that this build does not have; those of backends are in their folders. */
import { absentTable, off } from "../absent.ts";
import type { OptionTable } from "../table.ts";

export const ABSENT: readonly OptionTable[] = [
  absentTable("Authentication", "a cluster's caretaker", [
    ["SVC_CLIENT_TOKEN", "string", "Token of the caretaker's Docker-API proxy."],
    ["SVC_CLIENT_TOKEN_SECRET", "string", "Cluster Secret that holds the client token."],
    ["SVC_CARETAKER_TOKEN", "string", "Token of caretaker callbacks; companions have one each."],
    ["SVC_CARETAKER_TOKEN_SECRET", "string", "Cluster Secret that holds the caretaker token."],
    ["SVC_CARETAKER_TLS_SECRET", "string", "Cluster Secret with the caretaker's TLS material."],
  ]),
  absentTable("Companions", "companions", [
    ["SVC_CREDENTIALS_URL", "string", "Endpoint of generic credential delivery."],
    ["SVC_CARETAKER_CONFIG", "string", "Roles of a caretaker, as JSON; svc caretaker reads it."],
  ]),
  absentTable("Hub", "the hub", [
    ["SVC_HUB_STORE", "string", "Catalog store; kube for the cluster's."],
    ["SVC_HUB_REDIS", "string", "URL of a distributed catalog store."],
    ["SVC_HUB_FORWARD_URL", "string", "Where a replica forwards relay traffic."],
    ["SVC_HUB_FORWARD_CA", "string", "PEM CA bundle of that endpoint."],
    ["SVC_HUB_POLICY", "string", "Who may reach which service."],
    ["SVC_HUB_REGISTER_POLICY", "string", "Who may register services."],
  ]),
  absentTable("Observability", "observability", [
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
  ]),
];
