/** Containers as `docker ps` and `docker inspect` show them. */
import type { PublishedPort } from "../../api/deployment.ts";
import type { DockerApi } from "../api.ts";
import { idOf, short } from "../ids.ts";
import type { EndpointSettings } from "../bodies.ts";
import { exitCodeOf, isUp, type Seen, stateOf } from "./seen.ts";
import { modeOf } from "./spec.ts";

const NEVER = "0001-01-01T00:00:00Z";

function ago(from: string | undefined): string {
  const seconds = Math.max(0, (Date.now() - Date.parse(from ?? "")) / 1000);
  const amount = (count: number, unit: string) => `${Math.floor(count)} ${unit}`;
  if (seconds < 1 || Number.isNaN(seconds)) return "Less than a second";
  if (seconds < 2) return "1 second";
  if (seconds < 60) return amount(seconds, "seconds");
  if (seconds < 120) return "About a minute";
  if (seconds < 3600) return amount(seconds / 60, "minutes");
  if (seconds < 7200) return "About an hour";
  if (seconds < 48 * 3600) return amount(seconds / 3600, "hours");
  if (seconds < 14 * 86400) return amount(seconds / 86400, "days");
  return amount(seconds / (7 * 86400), "weeks");
}

const HEALTH: Record<string, string> = {
  starting: "health: starting",
  healthy: "healthy",
  unhealthy: "unhealthy",
};

/** "Up 3 minutes (healthy)". */
function statusOf(seen: Seen): string {
  const { instance } = seen;
  const health = instance?.health ? ` (${HEALTH[instance.health.state]})` : "";
  switch (stateOf(seen)) {
    case "created":
      return "Created";
    case "running":
      return `Up ${ago(instance?.startedAt)}${health}`;
    case "paused":
      return `Up ${ago(instance?.startedAt)} (Paused)`;
    case "restarting":
      return `Restarting (${exitCodeOf(seen)}) ${ago(instance?.finishedAt)} ago`;
    case "exited":
      return `Exited (${exitCodeOf(seen)}) ${ago(instance?.finishedAt)} ago`;
  }
}

/** The published ports: the server's, or those of this machine that lead to it. */
export function portsOf({ containers, isLocal }: DockerApi, seen: Seen): readonly PublishedPort[] {
  if (!isUp(seen.instance)) return [];
  const { record, status } = seen;
  return isLocal || record.instance !== undefined ? status.ports : containers.ports.of(record.id);
}

const shownIp = (ip: string) => ip === "" ? "0.0.0.0" : ip;

const wordsOf = ({ record: { config: { Entrypoint, Cmd } } }: Seen): string[] =>
  [Entrypoint ?? [], Cmd ?? []].flat();

/** The network's settings for this container. */
function endpointOf(seen: Seen, api: DockerApi, name: string, isFirst: boolean) {
  const { record, instance } = seen;
  const settings: EndpointSettings = record.endpoints[name] ?? {};
  const network = api.networks.known(name);
  const up = isUp(instance);
  return {
    IPAMConfig: settings.IPAMConfig ?? null,
    Links: null,
    Aliases: settings.Aliases ?? null,
    MacAddress: settings.MacAddress ?? "",
    DriverOpts: null,
    GwPriority: settings.GwPriority ?? 0,
    NetworkID: network.id,
    EndpointID: up ? idOf(`${record.id} ${name}`) : "",
    Gateway: up ? network.gateway ?? "" : "",
    IPAddress: up && isFirst ? instance?.ip ?? "" : "",
    IPPrefixLen: up && isFirst && instance?.ip ? Number(network.subnet?.split("/")[1] ?? 16) : 0,
    IPv6Gateway: "",
    GlobalIPv6Address: "",
    GlobalIPv6PrefixLen: 0,
    DNSNames: [record.name, short(record.id), ...settings.Aliases ?? []],
  };
}

/** By name; one that svc's own clients made is on the networks that its spec names. */
function networksOf(seen: Seen, api: DockerApi) {
  const named = Object.keys(seen.record.endpoints);
  const names = named.length > 0 ? named : ["bridge"];
  return Object.fromEntries(names.map((name, at) => [name, endpointOf(seen, api, name, at === 0)]));
}

/** A row of `GET /containers/json`. */
export function rowOf(seen: Seen, api: DockerApi) {
  const { record } = seen;
  return {
    Id: record.id,
    Names: [`/${record.name}`],
    Image: record.image,
    ImageID: record.imageId,
    Command: wordsOf(seen).map((word) => /\s/.test(word) ? `'${word}'` : word).join(" "),
    Created: Math.floor(Date.parse(record.created) / 1000),
    Ports: [
      ...portsOf(api, seen).map(({ hostIP, host, container, protocol }) => ({
        IP: shownIp(hostIP),
        PrivatePort: container,
        PublicPort: host,
        Type: protocol,
      })),
      ...(isUp(seen.instance) ? seen.status.exposed ?? [] : [])
        .filter(({ container }) => !portsOf(api, seen).some((port) => port.container === container))
        .map(({ container, protocol }) => ({ PrivatePort: container, Type: protocol })),
    ],
    Labels: record.config.Labels ?? {},
    State: stateOf(seen),
    Status: statusOf(seen),
    HostConfig: { NetworkMode: modeOf(record.hostConfig) },
    NetworkSettings: { Networks: networksOf(seen, api) },
    Mounts: record.mounts,
  };
}

function healthOf({ instance }: Seen) {
  const { health } = instance ?? {};
  if (!health) return undefined;
  const { last } = health;
  return {
    Status: health.state,
    FailingStreak: health.failures,
    Log: last
      ? [{ Start: last.time, End: last.time, ExitCode: last.exitCode ?? -1, Output: last.output }]
      : [],
  };
}

function boundPorts(seen: Seen, api: DockerApi) {
  const ports: Record<string, { HostIp: string; HostPort: string }[] | null> = {};
  if (!isUp(seen.instance)) return ports;
  for (const port of Object.keys(seen.record.config.ExposedPorts ?? {})) ports[port] = null;
  for (const { hostIP, host, container, protocol } of portsOf(api, seen)) {
    const key = `${container}/${protocol}`;
    (ports[key] ??= []).push({ HostIp: shownIp(hostIP), HostPort: String(host) });
  }
  return ports;
}

/** Members of HostConfig that clients read without looking whether they are there. */
const HOST_DEFAULTS = {
  ...{ Binds: null, ContainerIDFile: "", LogConfig: { Type: "json-file", Config: {} } },
  ...{ PortBindings: {}, RestartPolicy: { Name: "no", MaximumRetryCount: 0 }, AutoRemove: false },
  ...{ VolumeDriver: "", VolumesFrom: null, CapAdd: null, CapDrop: null, CgroupnsMode: "private" },
  ...{ Dns: [], DnsOptions: [], DnsSearch: [], ExtraHosts: null, GroupAdd: null },
  ...{ IpcMode: "private", Cgroup: "", Links: null, OomScoreAdj: 0, PidMode: "" },
  ...{ Privileged: false, PublishAllPorts: false, ReadonlyRootfs: false, SecurityOpt: null },
  ...{ UTSMode: "", UsernsMode: "", ShmSize: 67108864, Runtime: "runc", Isolation: "" },
  ...{ CpuShares: 0, Memory: 0, NanoCpus: 0, CgroupParent: "", Devices: [], Ulimits: null },
};

export function detailsOf(seen: Seen, api: DockerApi) {
  const { record, instance, status } = seen;
  const state = stateOf(seen);
  const up = isUp(instance);
  const networks = networksOf(seen, api);
  const [first] = Object.values(networks);
  const health = healthOf(seen);
  const [path = "", ...args] = wordsOf(seen);
  return {
    Id: record.id,
    Created: record.created,
    Path: path,
    Args: args,
    State: {
      Status: state,
      Running: up || state === "restarting",
      Paused: state === "paused",
      Restarting: state === "restarting",
      OOMKilled: false,
      Dead: false,
      Pid: up ? instance?.pid ?? 0 : 0,
      ExitCode: exitCodeOf(seen),
      Error: status.error ?? instance?.message ?? "",
      StartedAt: instance?.startedAt ?? NEVER,
      FinishedAt: instance?.finishedAt ?? NEVER,
      ...health && { Health: health },
    },
    Image: record.imageId,
    ...{ ResolvConfPath: "", HostnamePath: "", HostsPath: "", LogPath: "" },
    Name: `/${record.name}`,
    RestartCount: instance?.restarts ?? 0,
    Driver: "overlay2",
    Platform: "linux",
    ...{ MountLabel: "", ProcessLabel: "", AppArmorProfile: "", ExecIDs: null },
    HostConfig: {
      ...HOST_DEFAULTS,
      ...record.hostConfig,
      NetworkMode: modeOf(record.hostConfig),
    },
    GraphDriver: { Name: "overlay2", Data: null },
    Mounts: record.mounts,
    Config: {
      Hostname: short(record.id),
      ...{ Domainname: "", AttachStdin: false, AttachStdout: false, AttachStderr: false },
      ...{ Tty: false, OpenStdin: false, StdinOnce: false, OnBuild: null, Volumes: null },
      ...record.config,
      Entrypoint: record.config.Entrypoint ?? null,
      Cmd: record.config.Cmd ?? null,
      ...!record.config.Hostname && { Hostname: short(record.id) },
      Image: record.image,
    },
    NetworkSettings: {
      ...{ Bridge: "", SandboxID: "", SandboxKey: "", HairpinMode: false },
      Ports: boundPorts(seen, api),
      IPAddress: first?.IPAddress ?? "",
      IPPrefixLen: first?.IPPrefixLen ?? 0,
      Gateway: first?.Gateway ?? "",
      MacAddress: first?.MacAddress ?? "",
      Networks: networks,
    },
  };
}
