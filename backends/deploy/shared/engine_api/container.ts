/** A spec as the engine's description of a container. */
import type { DeploySpec, HealthcheckSpec } from "../../../../lib/api/deploy_spec.ts";
import { parseDuration } from "../../../../lib/base/duration.ts";
import { compareVersions } from "../../../../lib/docker/client.ts";
import { SHARED } from "./docker_companions.ts";
import type { RestartPolicy } from "./inspect.ts";
import { attachedLabel, containerLabels } from "./labels.ts";
import type { ContainerRequest } from "./engine.ts";
import { probeTimes } from "./probes.ts";
import { instanceId } from "./record.ts";

/** A request to an engine with the Docker Engine API. */
export interface DockerRequest extends ContainerRequest {
  /** The negotiated version of the API. */
  api: string;
  /** Undefined: the engine's own. */
  logDriver?: string;
  /** svc runs the health check; see {@linkcode EngineBehaviour.probe}. */
  probed?: boolean;
}

const NANOSECONDS = 1e6;

const nanos = (time: string | undefined) =>
  time === undefined ? undefined : parseDuration(time) * NANOSECONDS;

/** Nanoseconds in a year: the engine's own timer, where it has one, keeps out of the way. */
const NEVER = 365 * 24 * 3600e9;

function health(check: HealthcheckSpec | undefined, { api, probed }: DockerRequest) {
  if (!check) return undefined;
  return {
    Test: check.test,
    Interval: probed ? NEVER : nanos(check.interval),
    Timeout: nanos(check.timeout),
    StartPeriod: nanos(check.startPeriod),
    Retries: check.retries,
    ...(knowsStartInterval(api) && { StartInterval: nanos(check.startInterval) }),
  };
}

/** Docker 25 and later. */
export const knowsStartInterval = (api: string) => compareVersions(api, "1.44") >= 0;

export function restartPolicy({ restart, restartMaxAttempts }: DeploySpec): RestartPolicy {
  return {
    Name: restart,
    MaximumRetryCount: restart === "on-failure" ? restartMaxAttempts ?? 0 : 0,
  };
}

function device(text: string) {
  const [host, second, third] = text.split(":");
  const isAccess = second !== undefined && /^[rwm]+$/.test(second);
  return {
    PathOnHost: host,
    PathInContainer: second && !isAccess ? second : host,
    CgroupPermissions: third ?? (isAccess ? second : "rwm"),
  };
}

function portBindings({ ports }: DeploySpec) {
  const bindings: Record<string, { HostIp: string; HostPort: string }[]> = {};
  for (const { host, container, protocol, hostIP = "" } of ports) {
    const key = `${container}/${protocol}`;
    const HostPort = host ? String(host) : "";
    bindings[key] = [...bindings[key] ?? [], { HostIp: hostIP, HostPort }];
  }
  return bindings;
}

/** To docker's client both forms are the same, to engines before 23 this one alone. */
const securityOption = (option: string) =>
  option.replace(/^no-new-privileges=/, "no-new-privileges:");

function mounts({ spec, sources, attached, shared }: DockerRequest) {
  return [
    ...attached.map(({ source, target, readOnly }) => ({
      Type: "bind",
      Source: source,
      Target: target,
      ReadOnly: readOnly ?? false,
    })),
    ...spec.mounts.map(({ target, readOnly }, index) => ({
      Type: "bind",
      Source: sources[index],
      Target: target,
      ReadOnly: readOnly ?? false,
    })),
    ...spec.volumes.map(({ name, target, readOnly }) => ({
      Type: "volume",
      Source: name,
      Target: target,
      ReadOnly: readOnly ?? false,
    })),
    ...shared === undefined
      ? []
      : [{ Type: "volume", Source: shared, Target: SHARED, ReadOnly: true }],
  ];
}

function tmpfs({ tmpfs = [] }: DeploySpec): Record<string, string> {
  return Object.fromEntries(tmpfs.map((text) => {
    const colon = text.indexOf(":");
    return colon < 0 ? [text, ""] : [text.slice(0, colon), text.slice(colon + 1)];
  }));
}

export const boundsOf = ({ resources = {} }: DeploySpec) => ({
  NanoCpus: resources.cpuLimit && Math.round(resources.cpuLimit * 1e9),
  CpuShares: resources.reservedCpu && Math.max(2, Math.round(resources.reservedCpu * 1024)),
  Memory: resources.memoryLimit,
  MemoryReservation: resources.reservedMemory,
});

function hostConfig(request: DockerRequest) {
  const { spec, replica, attachments, logDriver, pidsLimit, rehearsal } = request;
  // A host port leads to one container: replica 0's.
  const publishes = replica === 0 && !rehearsal && attachments.kind === "networks";
  return {
    NetworkMode: attachments.kind === "networks" ? attachments.networks[0].id : attachments.kind,
    PortBindings: publishes ? portBindings(spec) : {},
    Mounts: mounts(request),
    Tmpfs: tmpfs(spec),
    // On trial a container that ends has failed. The spec's policy is set once it is up.
    RestartPolicy: request.fixedRestarts && !rehearsal ? restartPolicy(spec) : { Name: "no" },
    ...(logDriver && { LogConfig: { Type: logDriver, Config: {} } }),
    ...boundsOf(spec),
    ...(pidsLimit > 0 && { PidsLimit: pidsLimit }),
    Privileged: spec.privileged ?? false,
    ReadonlyRootfs: spec.readOnly ?? false,
    CapAdd: spec.capAdd,
    CapDrop: spec.capDrop,
    SecurityOpt: spec.securityOpt?.map(securityOption),
    GroupAdd: spec.groupAdd,
    Sysctls: spec.sysctls,
    ExtraHosts: Object.entries(spec.extraHosts ?? {}).map(([name, to]) => `${name}:${to}`),
    Dns: spec.dnsServers,
    DnsSearch: spec.dnsSearch,
    DnsOptions: spec.dnsOptions,
    Ulimits: spec.ulimits?.map(({ name, soft, hard }) => ({ Name: name, Soft: soft, Hard: hard })),
    Devices: spec.devices?.map(device),
    ShmSize: spec.shmSize,
    PidMode: spec.pidMode === "private" ? "" : spec.pidMode,
    IpcMode: spec.ipcMode,
    Init: spec.init,
  };
}

/** How the container is attached to one of its networks. */
export function endpointConfig(
  { spec: { name }, replica, rehearsal }: DockerRequest,
  { aliases = [], ip, ipv6, mac }: DeploySpec["networks"][number],
) {
  const fixed = !rehearsal && (ip || ipv6);
  return {
    // A rehearsal is nobody's to reach.
    Aliases: rehearsal ? [] : [name, instanceId(name, replica), ...aliases],
    ...(fixed && { IPAMConfig: { IPv4Address: ip, IPv6Address: ipv6 } }),
    ...(mac && !rehearsal && { MacAddress: mac }),
  };
}

/** The body of `/containers/create`. Networks after the first are connected before the start. */
export function containerBody(request: DockerRequest): Record<string, unknown> {
  const { spec, replica, image, env, attachments, api, server, rehearsal } = request;
  const first = attachments.kind === "networks" ? attachments.networks[0] : undefined;
  const all = { ...env, ...spec.env };
  const exposed = [...spec.ports, ...spec.expose ?? []];
  return {
    Image: image.id,
    Cmd: spec.command,
    // An empty list resets the image's.
    Entrypoint: spec.entrypoint?.length === 0 ? [""] : spec.entrypoint,
    Env: Object.entries(all).map(([name, value]) => `${name}=${value}`),
    Labels: {
      ...containerLabels(spec, {
        ...{ server, replica, rehearsal, emptied: request.emptied },
        probes: request.probed && spec.healthcheck?.test ? probeTimes(spec.healthcheck) : undefined,
      }),
      ...attachedLabel(request.attached),
    },
    ...(attachments.kind !== "host" &&
      { Hostname: spec.hostname ?? instanceId(spec.name, replica) }),
    User: spec.user,
    WorkingDir: spec.workingDir,
    StopSignal: spec.stopSignal,
    StopTimeout: stopSeconds(spec),
    Tty: spec.tty ?? false,
    OpenStdin: spec.stdinOpen ?? false,
    Healthcheck: health(spec.healthcheck, request),
    ExposedPorts: Object.fromEntries(
      exposed.map(({ container, protocol }) => [`${container}/${protocol}`, {}]),
    ),
    ...(first?.spec.mac && !rehearsal && compareVersions(api, "1.44") < 0 &&
      { MacAddress: first.spec.mac }),
    HostConfig: hostConfig(request),
    ...(first && {
      NetworkingConfig: { EndpointsConfig: { [first.id]: endpointConfig(request, first.spec) } },
    }),
  };
}

/** Whole seconds that a stop waits: the API has no smaller ones. */
export function stopSeconds({ stopGracePeriod = "10s" }: DeploySpec): number {
  return Math.ceil(parseDuration(stopGracePeriod) / 1000);
}
