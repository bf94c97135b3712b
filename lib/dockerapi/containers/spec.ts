/** A container's request as a deployment spec. */
import type { DeploySpec, HealthcheckSpec, NetworkSpec, PortSpec } from "../../api/deploy_spec.ts";
import { invalid, refusalOf } from "../errors.ts";
import { short } from "../ids.ts";
import type { NetworkRecord } from "../networks/record.ts";
import { type ContainerRecord, keptLabels, LABELS } from "./record.ts";
import type { ContainerConfig, EndpointSettings, HostConfig } from "../bodies.ts";
import type { Storage } from "./storage.ts";

export interface SpecOptions {
  record: ContainerRecord;
  storage: Pick<Storage, "volumes" | "tmpfs">;
  /** False: the server is elsewhere, and ports are published on this machine. */
  publishes: boolean;
  network: (name: string) => NetworkRecord | undefined;
}

const refuse = refusalOf("create the container");

const listOf = (value: string[] | string | null | undefined): string[] | undefined =>
  value === null ? undefined : typeof value === "string" ? [value] : value;

/** Nanoseconds as a Go duration; docker's zero means its default. */
const durationOf = (ns: number | undefined) => ns ? `${ns / 1e6}ms` : undefined;

/** Drops members without a value. */
export function defined<T extends object>(object: T): T {
  const kept = Object.entries(object).filter(([, value]) =>
    value !== undefined && value !== null && value !== "" && value !== false &&
    !(Array.isArray(value) && value.length === 0)
  );
  return Object.fromEntries(kept) as T;
}

const full = <T extends object>(object: T | null | undefined): T | undefined =>
  object && Object.keys(object).length > 0 ? object : undefined;

function healthOf({ Healthcheck }: ContainerConfig): HealthcheckSpec | undefined {
  if (!Healthcheck) return undefined;
  for (const field of ["Interval", "Timeout", "StartPeriod", "StartInterval"] as const) {
    const { [field]: ns = 0 } = Healthcheck;
    if (ns !== 0 && ns < 1e6) {
      throw invalid(`${field} in Healthcheck cannot be less than 1ms`);
    }
  }
  const { Test, Interval, Timeout, StartPeriod, StartInterval, Retries } = Healthcheck;
  return full(defined<HealthcheckSpec>({
    test: Test ?? undefined,
    interval: durationOf(Interval),
    timeout: durationOf(Timeout),
    startPeriod: durationOf(StartPeriod),
    startInterval: durationOf(StartInterval),
    retries: Retries || undefined,
  }));
}

type Port = Pick<PortSpec, "container" | "protocol">;

const isIn = (port: Port, all: readonly Port[]) =>
  all.some(({ container, protocol }) => container === port.container && protocol === port.protocol);

/** "80/tcp" → its parts. */
export function portOf(text: string): Port {
  const [, number, protocol = "tcp"] = /^(\d+)(?:\/(\w+))?$/.exec(text) ?? [];
  if (number === undefined || !["tcp", "udp", "sctp"].includes(protocol)) {
    throw refuse(`the port ${text}`, "expected a number and tcp, udp or sctp");
  }
  return { container: Number(number), protocol: protocol as PortSpec["protocol"] };
}

/** The ports that are to answer on this machine; `host` absent: any that is free. */
export function publishedOf(host: HostConfig, config: ContainerConfig): PortSpec[] {
  const ports: PortSpec[] = [];
  for (const [text, bindings] of Object.entries(host.PortBindings ?? {})) {
    for (const { HostIp = "", HostPort = "" } of bindings ?? []) {
      if (HostPort !== "" && !/^\d+$/.test(HostPort)) {
        throw refuse(`the port ${HostPort}:${text}`, "svc does not choose a port of a range");
      }
      ports.push({
        ...portOf(text),
        ...Number(HostPort) > 0 && { host: Number(HostPort) },
        ...HostIp && HostIp !== "0.0.0.0" && HostIp !== "::" && { hostIP: HostIp },
      });
    }
  }
  if (host.PublishAllPorts) {
    for (const text of Object.keys(config.ExposedPorts ?? {})) {
      const port = portOf(text);
      if (!isIn(port, ports)) ports.push(port);
    }
  }
  return ports;
}

/** Bytes: docker's own bound, below which a container hardly starts. */
const MIN_MEMORY = 6 << 20;

function memoryOf({ Memory = 0 }: HostConfig): number | undefined {
  if (Memory !== 0 && Memory < MIN_MEMORY) {
    throw invalid("Minimum memory limit allowed is 6MB");
  }
  return Memory || undefined;
}

function cpusOf({ NanoCpus = 0, CpuQuota = 0, CpuPeriod = 0 }: HostConfig): number | undefined {
  if (NanoCpus < 0) throw invalid("NanoCpus cannot be negative");
  if (NanoCpus > 0) return NanoCpus / 1e9;
  return CpuQuota > 0 ? CpuQuota / (CpuPeriod || 100_000) : undefined;
}

function restartOf({ RestartPolicy, AutoRemove }: HostConfig) {
  const { Name = "", MaximumRetryCount = 0 } = RestartPolicy ?? {};
  const restart = Name === "" ? "no" : Name;
  if (!["no", "always", "unless-stopped", "on-failure"].includes(restart)) {
    throw refuse(`the restart policy ${restart}`, "there is none of that name");
  }
  if (AutoRemove && restart !== "no") {
    throw invalid("can't create 'AutoRemove' container with restart policy");
  }
  if (MaximumRetryCount < 0) {
    throw invalid("invalid restart policy: maximum retry count cannot be negative");
  }
  if (MaximumRetryCount > 0 && restart !== "on-failure") {
    throw invalid("invalid restart policy: maximum retry count can only be used with 'on-failure'");
  }
  return {
    restart: restart as DeploySpec["restart"],
    restartMaxAttempts: MaximumRetryCount || undefined,
  };
}

function networkOf(
  name: string,
  endpoint: EndpointSettings,
  { record, network }: Pick<SpecOptions, "record" | "network">,
  isFirst: boolean,
): NetworkSpec {
  const known = network(name);
  const { IPAMConfig, Aliases, MacAddress, GwPriority, Links, DriverOpts } = endpoint;
  if (Links?.length) throw refuse("Links", "containers find each other by their names");
  if (full(DriverOpts)) throw refuse(`the options of ${name}`, "svc has none for one container");
  const aliases = new Set([...Aliases ?? [], record.name, short(record.id)]);
  return defined<NetworkSpec>({
    name,
    aliases: [...aliases],
    default: isFirst,
    ip: IPAMConfig?.IPv4Address,
    ipv6: IPAMConfig?.IPv6Address,
    mac: MacAddress,
    priority: GwPriority || undefined,
    ...known && {
      driver: known.driver === "bridge" ? undefined : known.driver,
      driverOpts: full(known.options),
      internal: known.internal,
      attachable: known.attachable,
      enableIPv6: known.enableIPv6,
      labels: full(keptLabels(known.labels)),
      subnet: known.subnet,
      gateway: known.gateway,
      ipRange: known.ipRange,
    },
  });
}

export const PREDEFINED = ["bridge", "host", "none"] as const;

/** The network that a container is on where it says nothing else. */
export const modeOf = ({ NetworkMode = "" }: HostConfig) =>
  NetworkMode === "" || NetworkMode === "default" ? "bridge" : NetworkMode;

export function networksOf(
  options: Pick<SpecOptions, "record" | "network">,
): NetworkSpec[] {
  const { record } = options;
  const mode = record.given.NetworkDisabled ? "none" : modeOf(record.hostConfig);
  if (/^(container|ns):/.test(mode)) {
    throw refuse(`the network ${mode}`, "a container has a network namespace of its own");
  }
  if (mode === "host" || mode === "none") return [{ name: mode }];
  const names = Object.keys(record.endpoints).filter((name) => name !== "bridge");
  return names.map((name) =>
    networkOf(name, record.endpoints[name], options, names.length > 1 && name === mode)
  );
}

function namespaceOf(field: string, mode: string | undefined): string | undefined {
  if (!mode || mode === "shareable" || mode === "private") return undefined;
  if (mode.startsWith("container:")) {
    throw refuse(`${field} ${mode}`, "a container does not join another one's namespace");
  }
  return mode;
}

function extraHostsOf(hosts: string[] | null | undefined): DeploySpec["extraHosts"] {
  const pairs = (hosts ?? []).map((text) => {
    const [, name, address] = /^([^:=]+)[:=](.+)$/.exec(text) ?? [];
    if (name === undefined) throw refuse(`the host ${text}`, "expected NAME:ADDRESS");
    return [name, address.replace(/^\[(.*)\]$/, "$1")];
  });
  return full(Object.fromEntries(pairs));
}

function environmentOf(env: string[] | null | undefined): Record<string, string> {
  const pairs = (env ?? []).map((text) => {
    const at = text.indexOf("=");
    return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  });
  return Object.fromEntries(pairs);
}

const devicesOf = (devices: HostConfig["Devices"]) =>
  (devices ?? []).map(({ PathOnHost, PathInContainer, CgroupPermissions }) =>
    [PathOnHost, PathInContainer || PathOnHost, CgroupPermissions || "rwm"].join(":")
  );

/** What `docker update` can change of a spec. */
export const changeable = (host: HostConfig) => ({
  resources: full(defined({
    cpuLimit: cpusOf(host),
    memoryLimit: memoryOf(host),
    reservedMemory: host.MemoryReservation || undefined,
  })),
  ...restartOf(host),
});

/** Throws `argument_invalid`, naming the field, for what cannot be honoured. */
export function containerSpec(options: SpecOptions): DeploySpec {
  const { record, storage, publishes } = options;
  const { hostConfig: host, config, given } = record;
  const published = publishedOf(host, config);
  const forwarded: Port[] = [];
  for (const { container, protocol } of publishes ? [] : published) {
    if (!isIn({ container, protocol }, forwarded)) forwarded.push({ container, protocol });
  }
  const entrypoint = listOf(given.Entrypoint);
  return {
    ...defined<Partial<DeploySpec>>({
      user: given.User,
      workingDir: given.WorkingDir,
      // The id's beginning, as docker has it; the host's network has the host's name.
      hostname: given.Hostname ||
        (modeOf(host) === "host" ? undefined : short(record.id)),
      stopSignal: given.StopSignal,
      stopGracePeriod: typeof given.StopTimeout === "number" && given.StopTimeout >= 0
        ? `${given.StopTimeout}s`
        : "10s",
      tty: given.Tty,
      stdinOpen: given.OpenStdin,
      init: host.Init ?? undefined,
      readOnly: host.ReadonlyRootfs,
      privileged: host.Privileged,
      capAdd: host.CapAdd ?? undefined,
      capDrop: host.CapDrop ?? undefined,
      securityOpt: host.SecurityOpt ?? undefined,
      groupAdd: host.GroupAdd ?? undefined,
      sysctls: full(host.Sysctls),
      extraHosts: extraHostsOf(host.ExtraHosts),
      dnsServers: host.Dns ?? undefined,
      dnsSearch: host.DnsSearch ?? undefined,
      dnsOptions: host.DnsOptions ?? undefined,
      shmSize: host.ShmSize || undefined,
      pidMode: namespaceOf("PidMode", host.PidMode),
      ipcMode: namespaceOf("IpcMode", host.IpcMode),
      devices: devicesOf(host.Devices),
      ulimits: (host.Ulimits ?? []).map(({ Name = "", Soft = 0, Hard = 0 }) => ({
        name: Name,
        soft: Soft,
        hard: Hard,
      })),
      tmpfs: storage.tmpfs,
      healthcheck: healthOf(given),
      expose: [...exposedOf(config, published), ...forwarded],
    }),
    name: record.deployment,
    image: record.source.image,
    // An empty list says that the image's own is not wanted.
    ...given.Entrypoint && entrypoint && { entrypoint: entrypoint.filter((word) => word !== "") },
    ...given.Cmd && { command: listOf(given.Cmd)! },
    env: environmentOf(given.Env),
    ports: publishes ? published : [],
    mounts: [],
    volumes: storage.volumes,
    networks: networksOf(options),
    ...defined(changeable(host)),
    replicas: 1,
    labels: { ...keptLabels(given.Labels), [LABELS.id]: record.id, [LABELS.name]: record.name },
  };
}

/** Declared ports that are not published. */
function exposedOf({ ExposedPorts }: ContainerConfig, published: readonly PortSpec[]): Port[] {
  return Object.keys(ExposedPorts ?? {}).map(portOf).filter((port) => !isIn(port, published));
}
