/**
 * What of a container's request svc honours. Every field that docker's clients can send is in one of these lists; one
 * that is in none is refused, so that nothing is left out in silence. docs/docker-api.md is for people.
 */
import { SvcError } from "../../base/errors.ts";
import type { CreateRequest, HostConfig } from "./request.ts";

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

/** Bounds that a server does not set: the container runs without them. */
const HOST_TOLD: Record<string, string> = {
  Annotations: "svc passes no annotations on",
  OomScoreAdj: "svc leaves it to the kernel",
  OomKillDisable: "svc leaves it to the kernel",
  CpuShares: "svc bounds processors (--cpus) and has no shares",
  BlkioWeight: "svc does not bound disks",
  BlkioWeightDevice: "svc does not bound disks",
  BlkioDeviceReadBps: "svc does not bound disks",
  BlkioDeviceWriteBps: "svc does not bound disks",
  BlkioDeviceReadIOps: "svc does not bound disks",
  BlkioDeviceWriteIOps: "svc does not bound disks",
  PidsLimit: "svc has a limit of its own for all workloads",
  KernelMemory: "kernels no longer have it",
  KernelMemoryTCP: "kernels no longer have it",
  CpuRealtimePeriod: "svc gives no real-time share",
  CpuRealtimeRuntime: "svc gives no real-time share",
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
  CpuCount: "it is for Windows",
  CpuPercent: "it is for Windows",
  IOMaximumIOps: "it is for Windows",
  IOMaximumBandwidth: "it is for Windows",
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

const refusal = (field: string, why: string) =>
  new SvcError(
    "argument_invalid",
    `Cannot create the container: ${field} cannot be honoured: ${why}`,
  );

/** Values of fields that are fine in one form only. */
const CHECKS: Record<string, (value: unknown, host: HostConfig) => string | undefined> = {
  CgroupnsMode: (value) => OWN.has(String(value)) ? undefined : "its cgroups are its own",
  UTSMode: (value) => OWN.has(String(value)) ? undefined : "its host name is its own",
  UsernsMode: (value) =>
    OWN.has(String(value)) || value === "host"
      ? undefined
      : "the server chooses its user namespace",
  Runtime: (value) =>
    OWN.has(String(value)) || value === "io.containerd.runc.v2"
      ? undefined
      : "the server chooses its runtime",
  Isolation: (value) => OWN.has(String(value)) ? undefined : "it is for Windows",
  VolumeDriver: (value) => OWN.has(String(value)) ? undefined : "there is no such driver",
  Cgroup: (value) => OWN.has(String(value)) ? undefined : "its cgroups are its own",
  MemorySwappiness: (value) => Number(value) === -1 ? undefined : "svc leaves it to the kernel",
  LogConfig: (value) => {
    const { Type = "" } = value as { Type?: string };
    return ["", "json-file", "local", "journald"].includes(Type)
      ? undefined
      : `the server keeps logs itself, and has no driver ${Type}`;
  },
};

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
    if (refused[field]) throw refusal(name, refused[field]);
    if (told[field]) warnings.push(`${name} has no effect: ${told[field]}`);
    else if (!honoured.includes(field)) throw refusal(name, "svc does not know it");
    const host = fields as HostConfig;
    const fault = at === "HostConfig." && CHECKS[field]?.(value, host);
    if (fault) throw refusal(name, fault);
    const tell = at === "HostConfig." && TELLS[field]?.(value, host);
    if (tell) warnings.push(`${name} has no effect: ${tell}`);
  }
  return warnings;
}

/**
 * Returns what is told of fields without effect. Throws `argument_invalid`, naming the field, for one that cannot be
 * honoured.
 */
export function checkRequest(request: CreateRequest): string[] {
  return [
    ...look("", request, CONFIG, CONFIG_TOLD, {}),
    ...look("HostConfig.", request.HostConfig ?? {}, HOST, HOST_TOLD, HOST_REFUSED),
  ];
}

/** For the page of the docs, and the test that they are disjoint. */
export const FIELDS = { CONFIG, CONFIG_TOLD, HOST, HOST_TOLD, HOST_REFUSED };
