/** A service as a deployment spec. */
import type { DeploySpec, HealthcheckSpec, ResourcesSpec } from "../api/deploy_spec.ts";
import { isRelayed } from "../api/egress.ts";
import { parseBytes } from "../base/bytes.ts";
import { SvcError } from "../base/errors.ts";
import { extensionFields } from "./extensions.ts";
import { deploymentName, LABELS } from "./names.ts";
import type { Service } from "./service.ts";
import { placeOf } from "./refusal.ts";
import { exposedOf, networksOf, portsOf } from "./service_networks.ts";
import { storageOf } from "./service_storage.ts";
import { at, imageOf, refuse, replicasOf, type Subject, texts } from "./subject.ts";

function healthOf({ service: { healthcheck } }: Subject): HealthcheckSpec | undefined {
  if (!healthcheck) return undefined;
  if (healthcheck.disable) return { test: ["NONE"] };
  const { test, interval, timeout, retries, start_period, start_interval } = healthcheck;
  return defined({
    ...{ test, interval, timeout, retries },
    ...{ startPeriod: start_period, startInterval: start_interval },
  });
}

const bytes = (size: string | number | undefined) =>
  size === undefined ? undefined : parseBytes(String(size)) || undefined;

function resourcesOf({ service }: Subject): ResourcesSpec | undefined {
  const { limits, reservations } = service.deploy?.resources ?? {};
  const cpuLimit = Number(limits?.cpus ?? service.cpus ?? 0);
  const reservedCpu = Number(reservations?.cpus ?? 0);
  const memoryLimit = bytes(limits?.memory ?? service.mem_limit);
  const reservedMemory = bytes(reservations?.memory ?? service.mem_reservation);
  const resources = defined<ResourcesSpec>({
    ...{ cpuLimit: cpuLimit || undefined, reservedCpu: reservedCpu || undefined },
    ...{ memoryLimit, reservedMemory },
  });
  return Object.keys(resources).length > 0 ? resources : undefined;
}

function restartOf({ service }: Subject): Pick<DeploySpec, "restart" | "restartMaxAttempts"> {
  const policy = service.deploy?.restart_policy;
  if (policy) {
    const condition = policy.condition ?? "any";
    const attempts = policy.max_attempts;
    if (condition === "none") return { restart: "no" };
    if (condition === "any") return { restart: "unless-stopped" };
    return { restart: "on-failure", ...(attempts && { restartMaxAttempts: Number(attempts) }) };
  }
  const [restart = "no", attempts] = (service.restart || "no").split(":");
  return {
    restart: restart as DeploySpec["restart"],
    ...(attempts && { restartMaxAttempts: Number(attempts) }),
  };
}

/** The namespaces of another service cannot be joined; "private", "shareable" and "host" are an engine's own. */
function namespaceOf(of: Subject, field: "pid" | "ipc"): string | undefined {
  const mode = of.service[field];
  if (!mode || mode === "shareable") return undefined;
  if (/^(service|container):/.test(mode)) {
    throw refuse(of, [field], `a workload cannot join another one's ${field} namespace`);
  }
  return mode;
}

function extraHostsOf(of: Subject): Record<string, string> | undefined {
  const hosts: Record<string, string> = {};
  for (const text of of.service.extra_hosts ?? []) {
    const [, name = text, address = ""] = /^([^=]+)=(.*)$/.exec(text) ?? [];
    if (hosts[name]) throw refuse(of, ["extra_hosts"], `${name} has two addresses`);
    hosts[name] = address.replace(/^\[(.*)\]$/, "$1");
  }
  return Object.keys(hosts).length > 0 ? hosts : undefined;
}

function ulimitsOf({ service: { ulimits } }: Subject): DeploySpec["ulimits"] {
  const limits = Object.entries(ulimits ?? {}).map(([name, limit]) =>
    typeof limit === "object"
      ? { name, soft: limit.soft ?? 0, hard: limit.hard ?? 0 }
      : { name, soft: limit, hard: limit }
  );
  return limits.length > 0 ? limits : undefined;
}

function devicesOf({ service: { devices = [] } }: Subject): string[] | undefined {
  const all = devices.map(({ source, target = source, permissions = "rwm" }) =>
    [source, target, permissions].join(":")
  );
  return all.length > 0 ? all : undefined;
}

function labelsOf({ loaded: { project }, name, service }: Subject): Record<string, string> {
  const after = Object.keys(service.depends_on ?? {});
  return {
    ...texts(service.labels ?? {}),
    [LABELS.project]: project.name,
    [LABELS.service]: name,
    ...(after.length > 0 && { [LABELS.dependsOn]: after.join(",") }),
    ...(service.container_name && { [LABELS.container]: service.container_name }),
  };
}

/** Fields that have the same form on both sides, by their names in the file and in the spec. */
const SAME = {
  user: "user",
  working_dir: "workingDir",
  hostname: "hostname",
  stop_signal: "stopSignal",
  stop_grace_period: "stopGracePeriod",
  init: "init",
  tty: "tty",
  stdin_open: "stdinOpen",
  read_only: "readOnly",
  privileged: "privileged",
  cap_add: "capAdd",
  cap_drop: "capDrop",
  security_opt: "securityOpt",
  dns: "dnsServers",
  dns_search: "dnsSearch",
  dns_opt: "dnsOptions",
} as const satisfies Partial<Record<keyof Service, keyof DeploySpec>>;

function sameFields({ service }: Subject): Partial<DeploySpec> {
  const fields: Record<string, unknown> = {};
  for (const [from, to] of Object.entries(SAME)) {
    const value = service[from as keyof typeof SAME];
    const empty = value === undefined || value === null || value === "" || value === false ||
      Array.isArray(value) && value.length === 0;
    if (!empty) fields[to] = value;
  }
  return fields as Partial<DeploySpec>;
}

function environmentOf({ service: { environment } }: Subject): Record<string, string> {
  const set = Object.entries(environment ?? {}).filter(([, value]) =>
    value !== null && value !== undefined
  );
  return texts(Object.fromEntries(set));
}

/** `container_name` is one name: throws where there are several containers. */
function checkName(of: Subject, replicas: number): void {
  if (of.service.container_name && replicas > 1) {
    throw refuse(
      of,
      ["container_name"],
      `${replicas} containers cannot all be called ${of.service.container_name}`,
    );
  }
}

/** Drops members that are undefined: the JSON and the type agree then. */
function defined<T extends object>(object: T): T {
  return Object.fromEntries(
    Object.entries(object).filter(([, value]) => value !== undefined),
  ) as T;
}

/**
 * A relay is beside the service: it is on a network of its own, where the project's default one would be. Of another
 * network the server says that it cannot be.
 */
function isApart({ egress }: Partial<DeploySpec>, { networks, network_mode: mode }: Service) {
  const usual = Object.entries(networks ?? {}).every(([key, one]) => key === "default" && !one);
  return egress !== undefined && isRelayed(egress) && usual && !mode;
}

/** The whole spec. Throws `unsupported`, naming the place in the file, for what svc does not do. */
export function serviceSpec(of: Subject): DeploySpec {
  const { loaded, name, service } = of;
  const { project } = loaded;
  const replicas = replicasOf(service);
  checkName(of, replicas);
  const { mounts, volumes, tmpfs } = storageOf(of);
  const update = service.deploy?.update_config;
  const extensions = extensionFields(loaded, name, service);
  try {
    return defined<DeploySpec>({
      ...extensions,
      ...sameFields(of),
      name: deploymentName(project.name, name),
      image: imageOf(project, name, service),
      ...(service.command && { command: service.command }),
      ...(service.entrypoint && { entrypoint: service.entrypoint }),
      env: environmentOf(of),
      ports: portsOf(of),
      expose: exposedOf(of),
      ...{ mounts, volumes },
      ...(tmpfs.length > 0 && { tmpfs }),
      networks: isApart(extensions, service) ? [] : networksOf(of),
      ...restartOf(of),
      replicas,
      healthcheck: healthOf(of),
      resources: resourcesOf(of),
      // docker compose stops a container before it makes the next: two never write to one volume.
      updateConfig: defined<NonNullable<DeploySpec["updateConfig"]>>({
        parallelism: update?.parallelism,
        order: update?.order === "start-first" ? "start-first" : "stop-first",
      }),
      labels: labelsOf(of),
      origin: { project: project.name, directory: loaded.directory },
      ...(service.group_add?.length && { groupAdd: service.group_add.map(String) }),
      ...(service.sysctls && { sysctls: texts(service.sysctls) }),
      extraHosts: extraHostsOf(of),
      ulimits: ulimitsOf(of),
      devices: devicesOf(of),
      shmSize: bytes(service.shm_size),
      pidMode: namespaceOf(of, "pid"),
      ipcMode: namespaceOf(of, "ipc"),
    });
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "argument_invalid") throw error;
    throw new SvcError("spec_invalid", `Cannot use ${placeOf(loaded, at(of))}: ${error.message}`, {
      cause: error,
    });
  }
}
