/** The zod schema of {@linkcode DeploySpec}. Import it where it is used: zod takes its time to load. */
import { z } from "zod";
import { parseBytes } from "../base/bytes.ts";
import { parseDuration } from "../base/duration.ts";
import { suggestion } from "../base/nearest.ts";
import { signalNumber } from "../base/signals.ts";
import type { DeploySpec } from "./deploy_spec.ts";
import {
  expandList,
  expandMap,
  expandMount,
  expandPort,
  expandRestart,
  expandUlimits,
  expandVolume,
  Issue,
  shellWords,
} from "./deploy_spec_shorthand.ts";

/** An object without other members; the nearest known name is suggested for one that is unknown. */
function record<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== "unrecognized_keys") return undefined;
      return issue.keys.map((key: string) =>
        `unknown field ${JSON.stringify(key)}${suggestion(key, Object.keys(shape))}`
      ).join("; ");
    },
  });
}

/** Shorthand first, then the schema; a malformed shorthand is reported at the field's path. */
function expanded<T extends z.ZodType>(expand: (value: unknown) => unknown, schema: T) {
  return z.preprocess((value, context) => {
    try {
      return value === undefined ? value : expand(value);
    } catch (error) {
      if (!(error instanceof Issue)) throw error;
      context.addIssue({ code: "custom", message: error.message });
      return z.NEVER;
    }
  }, schema);
}

const text = z.string("expected text");
const bool = z.boolean("expected true or false");
const words = z.array(text, "expected a list of texts");
const list = expanded(expandList, words);
const map = expanded(expandMap("=", "NAME=VALUE"), z.record(text, text, "expected a map"));

function int(least: number, most: number = Number.MAX_SAFE_INTEGER) {
  const message = most === Number.MAX_SAFE_INTEGER
    ? `expected a whole number from ${least}`
    : `expected ${least}..${most}`;
  return z.int(message).min(least, message).max(most, message);
}

const nonEmpty = text.min(1, "expected a text that is not empty");
const absolute = text.regex(/^\//, "expected an absolute path");
const port = int(1, 65535);

const address = text.refine(
  (value) => /^(\d{1,3}\.){3}\d{1,3}$/.test(value) || /^[0-9a-f:.]*:[0-9a-f:.]*$/i.test(value),
  "expected an IP address",
);

/** A Go duration, kept as text. */
const duration = z.preprocess((value) => value === 0 ? "0s" : value, text).refine((value) => {
  try {
    return parseDuration(value) >= 0;
  } catch {
    return false;
  }
}, "expected a duration such as 300ms, 10s or 1m30s");

const sizeMessage = "expected bytes or a size such as 64Mi";
const size = expanded((value) => {
  if (typeof value !== "string") return value;
  try {
    return parseBytes(value);
  } catch {
    throw new Issue(sizeMessage);
  }
}, z.int(sizeMessage).min(0, sizeMessage));

const cpuMessage = "expected a number of processors such as 0.5, 2 or 500m";
const cpus = expanded((value) => {
  if (typeof value !== "string") return value;
  const match = /^(\d+(?:\.\d+)?)(m?)$/.exec(value);
  if (!match) throw new Issue(cpuMessage);
  return Number(match[1]) / (match[2] ? 1000 : 1);
}, z.number(cpuMessage).positive(cpuMessage));

/** A command line: a list, or one text split as a shell splits it. */
const command = expanded((value) => typeof value === "string" ? shellWords(value) : value, words);

const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const resourceName = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
const resource = text.regex(resourceName, "expected letters, digits, '_', '.' and '-'");

const portSpec = record({
  host: int(0, 65535).optional(),
  container: port,
  protocol: z.enum(["tcp", "udp", "sctp"], "expected tcp, udp or sctp").default("tcp"),
  hostIP: address.optional(),
});

const mountSpec = record({
  source: nonEmpty,
  target: absolute,
  readOnly: bool.optional(),
  selinux: z.enum(["shared", "private"], "expected shared or private").optional(),
  immutable: bool.optional(),
  asyncCache: bool.optional(),
});

const volumeSpec = record({
  name: resource,
  target: absolute,
  size: size.optional(),
  storageClass: text.optional(),
  readOnly: bool.optional(),
  driver: text.optional(),
  driverOpts: map.optional(),
  labels: map.optional(),
});

const networkSpec = record({
  name: resource,
  driver: text.optional(),
  driverOpts: map.optional(),
  aliases: list.optional(),
  default: bool.optional(),
  ip: address.optional(),
  subnet: text.optional(),
  gateway: address.optional(),
  ipRange: text.optional(),
  internal: bool.optional(),
  attachable: bool.optional(),
  enableIPv6: bool.optional(),
  labels: map.optional(),
  ipv6: address.optional(),
  mac: text.regex(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i, "expected a MAC address").optional(),
  priority: z.int("expected a whole number").optional(),
});

const testKinds = ["CMD", "CMD-SHELL", "NONE"];
const healthcheck = record({
  test: expanded(
    (value) => typeof value === "string" ? ["CMD-SHELL", value] : value,
    words.refine(
      (value) => testKinds.includes(value[0]) && (value[0] === "NONE" || value.length > 1),
      `expected a text, or a list that begins with ${testKinds.join(", ")}`,
    ),
  ).optional(),
  interval: duration.optional(),
  timeout: duration.optional(),
  startPeriod: duration.optional(),
  startInterval: duration.optional(),
  retries: int(0).optional(),
});

const delivery = record({
  kind: nonEmpty,
  provider: text.optional(),
  wellKnown: text.optional(),
  upstream: text.optional(),
  path: text.optional(),
  format: text.optional(),
  envVar: text.optional(),
  valueKey: text.optional(),
});

const git = record({
  remote: text.optional(),
  branch: text.optional(),
  commit: text.optional(),
  dirty: bool.optional(),
});

/** The whole spec. Input: parsed YAML or JSON, shorthand allowed. */
export const deploySpecSchema = z.preprocess(
  expandRestart,
  record({
    name: text.regex(label, "expected a DNS label: a-z, 0-9 and '-', at most 63 characters"),
    image: nonEmpty,
    command: command.optional(),
    entrypoint: command.optional(),
    env: map.default({}),
    ports: expanded(
      (value) => Array.isArray(value) ? value.flatMap(expandPort) : value,
      z.array(portSpec, "expected a list of ports"),
    ).default([]),
    mounts: expanded(
      (value) => Array.isArray(value) ? value.map(expandMount) : value,
      z.array(mountSpec, "expected a list of mounts"),
    ).default([]),
    volumes: expanded(
      (value) => Array.isArray(value) ? value.map(expandVolume) : value,
      z.array(volumeSpec, "expected a list of volumes"),
    ).default([]),
    networks: expanded(
      (value) =>
        Array.isArray(value)
          ? value.map((item) => typeof item === "string" ? { name: item } : item)
          : value,
      z.array(networkSpec, "expected a list of networks"),
    ).default([]),
    proxy: record({
      mode: text.optional(),
      allow: list.optional(),
      ports: z.array(port, "expected a list of ports").optional(),
      listenPort: port.optional(),
    }).optional(),
    dns: record({ records: map.optional(), requireUserNet: bool.optional() }).optional(),
    hub: record({
      identity: text.optional(),
      export: list.optional(),
      import: list.optional(),
      importDynamic: bool.optional(),
    }).optional(),
    docker: record({
      transport: text.optional(),
      port: port.optional(),
      socketPath: absolute.optional(),
      envVar: text.optional(),
    }).optional(),
    credentials: record({
      sources: z.array(
        record({
          name: nonEmpty,
          backend: text.optional(),
          config: map.optional(),
          ttl: duration.optional(),
          deliver: z.array(delivery, "expected a list").optional(),
        }),
        "expected a list of sources",
      ),
    }).optional(),
    restart: z.enum(
      ["no", "on-failure", "always", "unless-stopped"],
      "expected no, on-failure[:attempts], always or unless-stopped",
    ).default("unless-stopped"),
    restartMaxAttempts: int(0).optional(),
    replicas: int(0, 1000).default(1),
    privileged: bool.optional(),
    healthcheck: healthcheck.optional(),
    resources: record({
      cpuLimit: cpus.optional(),
      memoryLimit: size.optional(),
      reservedCpu: cpus.optional(),
      reservedMemory: size.optional(),
    }).optional(),
    updateConfig: record({
      parallelism: int(0).optional(),
      order: z.enum(["start-first", "stop-first"], "expected start-first or stop-first").optional(),
    }).optional(),
    user: expanded((value) => typeof value === "number" ? String(value) : value, text).optional(),
    workingDir: absolute.optional(),
    hostname: text.regex(/^[a-zA-Z0-9][a-zA-Z0-9.-]{0,62}$/, "expected a host name").optional(),
    labels: map.optional(),
    origin: record({
      project: text.optional(),
      host: text.optional(),
      user: text.optional(),
      directory: text.optional(),
      git: git.optional(),
      subject: text.optional(),
    }).optional(),
    stopSignal: expanded(
      (value) => typeof value === "number" ? String(value) : value,
      text.refine(
        (value) => signalNumber(value) !== undefined,
        "expected a signal such as SIGTERM, SIGRTMIN+3 or 15",
      ),
    ).optional(),
    stopGracePeriod: duration.optional(),
    init: bool.optional(),
    tty: bool.optional(),
    stdinOpen: bool.optional(),
    readOnly: bool.optional(),
    capAdd: list.optional(),
    capDrop: list.optional(),
    securityOpt: list.optional(),
    groupAdd: expanded(
      (value) => Array.isArray(value) ? value.map(String) : expandList(value),
      words,
    ).optional(),
    sysctls: map.optional(),
    extraHosts: expanded(
      expandMap(":=", "name:address"),
      z.record(text, text, "expected a map of host name to address"),
    ).optional(),
    dnsServers: expanded(expandList, z.array(address, "expected a list of addresses")).optional(),
    dnsSearch: list.optional(),
    dnsOptions: list.optional(),
    ulimits: expanded(
      expandUlimits,
      z.array(
        record({ name: nonEmpty, soft: int(-1), hard: int(-1) }),
        "expected a list of limits",
      ),
    ).optional(),
    tmpfs: expanded(expandList, z.array(absolute, "expected a list of paths")).optional(),
    devices: expanded(expandList, z.array(absolute, "expected a list of devices")).optional(),
    shmSize: size.optional(),
    pidMode: text.optional(),
    ipcMode: text.optional(),
    egress: record({
      mode: text.optional(),
      proxies: map.optional(),
      rules: z.array(record({ pattern: nonEmpty, route: nonEmpty }), "expected a list of rules")
        .optional(),
      script: text.optional(),
      default: text.optional(),
      listenPort: port.optional(),
    }).optional(),
    ingress: record({
      enabled: bool.optional(),
      hosts: list.optional(),
      domain: text.optional(),
      subdomain: text.optional(),
      path: absolute.optional(),
      pathType: z.enum(
        ["Exact", "Prefix", "ImplementationSpecific"],
        "expected Exact, Prefix or ImplementationSpecific",
      ).optional(),
      port: port.optional(),
      className: text.optional(),
      annotations: map.optional(),
      tls: z.union([bool, record({ secretName: text.optional(), hosts: list.optional() })])
        .optional(),
    }).optional(),
    knative: record({
      enabled: bool.optional(),
      minScale: int(0).optional(),
      maxScale: int(0).optional(),
      initialScale: int(0).optional(),
      containerConcurrency: int(0).optional(),
      target: int(1).optional(),
      metric: text.optional(),
      class: text.optional(),
      timeout: duration.optional(),
    }).optional(),
    agentForward: bool.optional(),
    telemetry: record({
      enabled: bool.optional(),
      traces: bool.optional(),
      metrics: bool.optional(),
      logs: bool.optional(),
      serviceName: text.optional(),
      attributes: map.optional(),
    }).optional(),
    shells: list.optional(),
    strict: bool.optional(),
  }),
) satisfies z.ZodType<DeploySpec>;
