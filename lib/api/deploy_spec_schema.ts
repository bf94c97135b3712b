/** The zod schema of {@linkcode DeploySpec}. Import it lazily: zod is slow to load. */
import { z } from "zod";
import { signalNumber } from "../base/signals.ts";
import type { DeploySpec } from "./deploy_spec.ts";
import type { FieldTable } from "./deploy_spec_fields.ts";
import {
  absolute,
  address,
  alias,
  bool,
  capabilities,
  command,
  cpus,
  duration,
  expanded,
  hostName,
  int,
  label,
  list,
  listOf,
  map,
  mapOf,
  nonEmpty,
  port,
  prose,
  proseMap,
  record,
  resource,
  size,
  text,
  tmpfs,
  words,
} from "./deploy_spec_parts.ts";
import { EGRESS_MODES, EGRESS_ROUTES } from "./egress.ts";
import { checkRules } from "./deploy_spec_rules.ts";
import {
  expandExposed,
  expandList,
  expandMap,
  expandMount,
  expandPort,
  expandRestart,
  expandUlimits,
  expandVolume,
} from "./deploy_spec_shorthand.ts";
import {
  HOST_NAME,
  isAddress,
  isReservedName,
  RESOLVER_OPTION,
  SEARCH_DOMAIN,
  SYSCTL,
} from "./deploy_spec_text.ts";

const egressRoute = z.enum(EGRESS_ROUTES, `expected ${EGRESS_ROUTES.join(", ")}`);

const portSpec = record({
  host: int(0, 65535).optional(),
  container: port,
  protocol: z.enum(["tcp", "udp", "sctp"], "expected tcp, udp or sctp").default("tcp"),
  hostIP: address.optional(),
});

const exposedPort = record({ container: port, protocol: portSpec.shape.protocol });

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
  aliases: expanded(expandList, z.array(alias, "expected a list of names")).optional(),
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
    z.array(prose, "expected a list of texts").refine(
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
    name: text.regex(label, "expected a DNS label: a-z, 0-9 and '-', at most 63 characters").refine(
      (value) => !isReservedName(value),
      "this name is reserved",
    ),
    image: nonEmpty,
    command: command.optional(),
    entrypoint: command.optional(),
    env: mapOf(/^[^=\p{Cc}]+$/u, "expected a name without '='", prose).default({}),
    ports: expanded(
      (value) => Array.isArray(value) ? value.flatMap(expandPort) : value,
      z.array(portSpec, "expected a list of ports"),
    ).default([]),
    expose: expanded(
      (value) => Array.isArray(value) ? value.flatMap(expandExposed) : value,
      z.array(exposedPort, "expected a list of ports"),
    ).optional(),
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
    labels: proseMap.optional(),
    origin: record({
      project: prose.optional(),
      host: prose.optional(),
      user: prose.optional(),
      directory: prose.optional(),
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
    capAdd: capabilities.optional(),
    capDrop: capabilities.optional(),
    securityOpt: list.optional(),
    groupAdd: expanded(
      (value) => Array.isArray(value) ? value.map(String) : expandList(value),
      words,
    ).optional(),
    sysctls: mapOf(SYSCTL, "expected a name such as net.core.somaxconn", text).optional(),
    extraHosts: mapOf(
      HOST_NAME,
      hostName,
      text.refine(
        (value) => value === "host-gateway" || isAddress(value),
        "expected an IP address or host-gateway",
      ),
      expandMap(":=", "name:address"),
    ).optional(),
    dnsServers: expanded(expandList, z.array(address, "expected a list of addresses")).optional(),
    dnsSearch: listOf(SEARCH_DOMAIN, "expected a domain").optional(),
    dnsOptions: listOf(RESOLVER_OPTION, "expected an option such as ndots:2").optional(),
    ulimits: expanded(
      expandUlimits,
      z.array(
        record({
          name: text.regex(/^(RLIMIT_)?[a-z]+$/i, "expected a limit such as nofile"),
          soft: int(-1),
          hard: int(-1),
        }),
        "expected a list of limits",
      ),
    ).optional(),
    tmpfs: expanded(expandList, z.array(tmpfs, "expected a list of paths")).optional(),
    devices: expanded(expandList, z.array(absolute, "expected a list of devices")).optional(),
    shmSize: size.optional(),
    pidMode: text.optional(),
    ipcMode: text.optional(),
    egress: record({
      mode: z.enum(EGRESS_MODES, `expected ${EGRESS_MODES.join(", ")}`).optional(),
      proxies: map.optional(),
      rules: z.array(record({ pattern: nonEmpty, route: egressRoute }), "expected a list of rules")
        .optional(),
      script: prose.optional(),
      default: egressRoute.optional(),
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
      annotations: proseMap.optional(),
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
      attributes: proseMap.optional(),
    }).optional(),
    shells: list.optional(),
    strict: bool.optional(),
  }).superRefine((spec, context) =>
    checkRules(spec, (path, message) => context.addIssue({ code: "custom", path, message }))
  ),
) satisfies z.ZodType<DeploySpec>;

/** A field that is only in the schema or only in the type is a type error here. */
type Same<A, B extends A> = [A, B];
type Checked = z.output<typeof deploySpecSchema>;
export type SameFields = [
  Same<FieldTable<Checked>, FieldTable>,
  Same<FieldTable, FieldTable<Checked>>,
];
