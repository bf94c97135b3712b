/**
 * What of a container's request svc honours. Every field that docker's clients can send is in one of these lists; one
 * that is in none is refused, so that nothing is left out in silence. docs/docker-api.md is for people.
 */
import { refusalOf } from "../errors.ts";
import type { Bodies, HostConfig } from "../bodies.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Fields of the body that are used, or that only say what the client itself does. */
const CONFIG =
  ("Hostname User AttachStdin AttachStdout AttachStderr ExposedPorts Tty OpenStdin StdinOnce Env Cmd Healthcheck " +
    "ArgsEscaped Image Volumes WorkingDir Entrypoint NetworkDisabled MacAddress Labels StopSignal StopTimeout " +
    // dockerode sends the query's name in the body, too.
    "HostConfig NetworkingConfig name").split(" ");

/** Fields of the body that have no effect, which is told where they say something. */
const CONFIG_TOLD: Record<string, string> = {
  Domainname: "the host name is Hostname alone",
  OnBuild: "a container has no instructions for builds",
  Shell: "it is for builds",
};

const HOST =
  ("Binds Mounts Tmpfs NetworkMode PortBindings PublishAllPorts RestartPolicy AutoRemove Privileged CapAdd CapDrop " +
    "Dns DnsOptions DnsSearch ExtraHosts GroupAdd IpcMode PidMode ReadonlyRootfs SecurityOpt ShmSize Sysctls Init " +
    "Ulimits Devices Memory MemoryReservation NanoCpus CpuPeriod CpuQuota LogConfig ConsoleSize ContainerIDFile " +
    // Checked below.
    "CgroupnsMode UTSMode UsernsMode Runtime Isolation VolumeDriver Cgroup MaskedPaths ReadonlyPaths MemorySwap " +
    "MemorySwappiness").split(" ");

const alike = (why: string, fields: string) =>
  Object.fromEntries(fields.split(" ").map((field) => [field, why]));

/** Bounds that a server does not set: the container runs without them. */
const HOST_TOLD: Record<string, string> = {
  Annotations: "svc passes no annotations on",
  CpuShares: "svc bounds processors (--cpus) and has no shares",
  PidsLimit: "svc has a limit of its own for all workloads",
  ...alike("svc leaves it to the kernel", "OomScoreAdj OomKillDisable"),
  ...alike(
    "svc does not bound disks",
    "BlkioWeight BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps BlkioDeviceWriteIOps",
  ),
  ...alike("kernels no longer have it", "KernelMemory KernelMemoryTCP"),
  ...alike("svc gives no real-time share", "CpuRealtimePeriod CpuRealtimeRuntime"),
};

/** Fields that would change what a container is. */
const HOST_REFUSED: Record<string, string> = {
  Links: "containers find each other by their names on a network",
  VolumesFrom: "name the volumes",
  StorageOpt: "svc does not bound a root file system",
  CgroupParent: "the server places its workloads itself",
  CpusetCpus: "svc bounds processors (--cpus) and pins none",
  CpusetMems: "svc pins no memory",
  DeviceCgroupRules: "name the devices",
  DeviceRequests: "svc passes no GPUs on",
  ...alike("it is for Windows", "CpuCount CpuPercent IOMaximumIOps IOMaximumBandwidth"),
};

const OWN = new Set(["", "default", "private", "host-gateway", "runc", "local"]);

/** True for what says nothing: a default, or an empty list. */
function saysNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === 0 || value === false) {
    return true;
  }
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && Object.keys(value).length === 0;
}

type Refuse = ReturnType<typeof refusalOf>;

/** Fields that say nothing new with these values and those of {@linkcode OWN}, and why others are refused. */
const ONLY: Record<string, readonly [why: string, ...values: string[]]> = {
  CgroupnsMode: ["its cgroups are its own"],
  UTSMode: ["its host name is its own"],
  UsernsMode: ["the server chooses its user namespace", "host"],
  Runtime: ["the server chooses its runtime", "io.containerd.runc.v2"],
  Isolation: ["it is for Windows"],
  VolumeDriver: ["there is no such driver"],
  Cgroup: ["its cgroups are its own"],
  MemorySwappiness: ["svc leaves it to the kernel", "-1"],
};

const LOG_DRIVERS = ["", "json-file", "local", "journald"];

/** Throws `argument_invalid` for a value that the field must not have. */
function checkValue(field: string, value: unknown, refuse: Refuse): void {
  const [why, ...values] = ONLY[field] ?? [];
  const text = String(value);
  if (why && !OWN.has(text) && !values.includes(text)) throw refuse(`HostConfig.${field}`, why);
  if (field !== "LogConfig") return;
  const { Type = "" } = value as { Type?: string };
  if (LOG_DRIVERS.includes(Type)) return;
  const own = `the server keeps logs itself, and has no driver ${Type}`;
  throw refuse(`HostConfig.${field}`, own);
}

/** What is told of a field whose value has no effect. */
const TELLS: Record<string, (value: unknown, host: HostConfig) => string | undefined> = {
  MaskedPaths: (value) =>
    Array.isArray(value) ? "the server hides what it hides of all workloads" : undefined,
  ReadonlyPaths: (value) =>
    Array.isArray(value) ? "the server protects what it protects of all workloads" : undefined,
  MemorySwap: (value, { Memory = 0 }) =>
    Number(value) === -1 || Number(value) === 2 * Memory || Number(value) === Memory
      ? undefined
      : "svc bounds memory, and not swap",
  LogConfig: (value) =>
    saysNothing((value as { Config?: unknown }).Config)
      ? undefined
      : "the server has one rule for all logs",
};

function look(
  refuse: Refuse,
  at: string,
  fields: Fields,
  honoured: readonly string[],
  told: Record<string, string>,
  refused: Record<string, string>,
): string[] {
  const warnings: string[] = [];
  for (const [field, value] of Object.entries(fields)) {
    if (saysNothing(value)) continue;
    const name = `${at}${field}`;
    if (refused[field]) throw refuse(name, refused[field]);
    if (told[field]) warnings.push(`${name} has no effect: ${told[field]}`);
    else if (!honoured.includes(field)) throw refuse(name, "svc does not know it");
    if (at === "") continue;
    checkValue(field, value, refuse);
    const tell = TELLS[field]?.(value, fields as HostConfig);
    if (tell) warnings.push(`${name} has no effect: ${tell}`);
  }
  return warnings;
}

/**
 * Returns what is told of fields without effect. Throws `argument_invalid`, naming the field, for one that cannot be
 * honoured.
 */
export function checkRequest(request: Bodies["ContainerCreate"]): string[] {
  const refuse = refusalOf("create the container");
  return [
    ...look(refuse, "", request, CONFIG, CONFIG_TOLD, {}),
    ...look(refuse, "HostConfig.", request.HostConfig ?? {}, HOST, HOST_TOLD, HOST_REFUSED),
  ];
}

/** Fields of `docker update`. */
const UPDATED = "Memory MemoryReservation MemorySwap NanoCpus CpuPeriod CpuQuota RestartPolicy"
  .split(" ");

/** Of an update: what it changes, and what is told. Throws as {@linkcode checkRequest}. */
export function checkUpdate(update: HostConfig): { changes: HostConfig; warnings: string[] } {
  const fields = Object.entries(update).filter(([field, value]) =>
    !saysNothing(value) && (field !== "RestartPolicy" || update.RestartPolicy?.Name)
  );
  const said: HostConfig = Object.fromEntries(fields);
  const refuse = refusalOf("update the container");
  const warnings = look(refuse, "HostConfig.", said, UPDATED, HOST_TOLD, HOST_REFUSED);
  const changes = Object.fromEntries(fields.filter(([field]) => UPDATED.includes(field)));
  return { changes, warnings };
}

/** For the page of the docs, and the test that they are disjoint. */
export const FIELDS = { CONFIG, CONFIG_TOLD, HOST, HOST_TOLD, HOST_REFUSED };
