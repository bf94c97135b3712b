/**
 * The bodies of requests (docker's Engine API), read as Go reads them: every member may be absent or null, names match
 * in any case, and members that are not named here are kept. Import it lazily: zod is slow to load.
 */
import { z } from "zod";

const text = z.string();
const bool = z.boolean();
/** Of 64 bits: JavaScript's "safe" ones would not do. */
const int = z.number().refine(Number.isInteger, "expected a whole number");
const list = <T extends z.ZodType>(one: T) => z.array(one);
const map = <T extends z.ZodType>(one: T) => z.record(z.string(), one);
/** What is only there or not: Go's empty struct. */
const mark = z.looseObject({}).nullable();
const texts = list(text);
const textMap = map(z.preprocess((value) => value ?? "", text));
const words = z.union([text, texts], "expected a string or a list of strings");
/** Rows and columns. */
const size = z.tuple([int, int]);
const none = z.literal("");
const subnet = z.union([none, z.cidrv4(), z.cidrv6()], "expected a subnet such as 10.1.0.0/16");
const address = z.union([none, z.ipv4(), z.ipv6()], "expected an IP address");

function object<S extends z.ZodRawShape>(shape: S) {
  const names = new Map(Object.keys(shape).map((name) => [name.toLowerCase(), name]));
  const goForm = (value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const given = Object.entries(value).filter(([, member]) => member !== null);
    return Object.fromEntries(
      given.map(([name, member]) => [names.get(name.toLowerCase()) ?? name, member]),
    );
  };
  return z.preprocess(goForm, z.looseObject(shape).partial());
}

const healthcheck = object({
  Test: texts,
  // Nanoseconds.
  ...{ Interval: int, Timeout: int, StartPeriod: int, StartInterval: int },
  Retries: int,
});

const config = {
  ...{ Hostname: text, Domainname: text, User: text, Image: text, WorkingDir: text },
  ...{ AttachStdin: bool, AttachStdout: bool, AttachStderr: bool },
  ...{ Tty: bool, OpenStdin: bool, StdinOnce: bool, ArgsEscaped: bool, NetworkDisabled: bool },
  ...{ Env: texts, Cmd: words, Entrypoint: words, OnBuild: texts, Shell: words },
  ...{ Labels: textMap, Volumes: map(mark), ExposedPorts: map(mark) },
  Healthcheck: healthcheck,
  ...{ StopSignal: text, MacAddress: text },
  /** Seconds. */
  StopTimeout: int,
};

const mount = object({
  ...{ Type: text, Source: text, Target: text, ReadOnly: bool, Consistency: text },
  BindOptions: object({
    ...{ Propagation: text, NonRecursive: bool, CreateMountpoint: bool },
    ...{ ReadOnlyNonRecursive: bool, ReadOnlyForceRecursive: bool },
  }),
  VolumeOptions: object({
    ...{ NoCopy: bool, Subpath: text, Labels: textMap },
    DriverConfig: object({ Name: text, Options: textMap }),
  }),
  TmpfsOptions: object({ SizeBytes: int, Mode: int }),
});

const resources = {
  // Bytes.
  ...{ Memory: int, MemoryReservation: int, MemorySwap: int, KernelMemory: int },
  MemorySwappiness: int,
  ...{ NanoCpus: int, CpuPeriod: int, CpuQuota: int, CpuShares: int, PidsLimit: int },
  ...{ CpuRealtimePeriod: int, CpuRealtimeRuntime: int, CpusetCpus: text, CpusetMems: text },
  ...{ BlkioWeight: int, OomKillDisable: bool, CgroupParent: text },
  Ulimits: list(object({ Name: text, Soft: int, Hard: int })),
  Devices: list(object({ PathOnHost: text, PathInContainer: text, CgroupPermissions: text })),
  DeviceCgroupRules: texts,
  RestartPolicy: object({ Name: text, MaximumRetryCount: int }),
};

const hostConfig = object({
  ...resources,
  ...{ Binds: texts, Mounts: list(mount), Tmpfs: textMap, VolumesFrom: texts, VolumeDriver: text },
  ...{ NetworkMode: text, PublishAllPorts: bool, Links: texts },
  PortBindings: map(list(object({ HostIp: text, HostPort: text })).nullable()),
  ...{ AutoRemove: bool, Privileged: bool, ReadonlyRootfs: bool, Init: bool },
  ...{ CapAdd: texts, CapDrop: texts, SecurityOpt: texts, GroupAdd: texts, ExtraHosts: texts },
  ...{ Dns: texts, DnsOptions: texts, DnsSearch: texts },
  ...{ IpcMode: text, PidMode: text, CgroupnsMode: text, UTSMode: text, UsernsMode: text },
  ...{ Runtime: text, Isolation: text, Cgroup: text, ContainerIDFile: text },
  ...{ ShmSize: int, OomScoreAdj: int, Sysctls: textMap, StorageOpt: textMap },
  ...{ Annotations: textMap, MaskedPaths: texts, ReadonlyPaths: texts },
  LogConfig: object({ Type: text, Config: textMap }),
  ConsoleSize: size,
});

const endpoint = object({
  ...{ Aliases: texts, Links: texts, MacAddress: text, DriverOpts: textMap, GwPriority: int },
  IPAMConfig: object({ IPv4Address: text, IPv6Address: text, LinkLocalIPs: texts }),
});

const login = object({
  ...{ username: text, password: text, identitytoken: text, serveraddress: text },
});

/** By the names of the Engine API's definitions. */
export const BODIES = {
  ContainerCreate: object({
    ...config,
    HostConfig: hostConfig,
    NetworkingConfig: object({ EndpointsConfig: map(endpoint.nullable()) }),
  }),
  ContainerUpdate: object(resources),
  ExecConfig: object({
    ...{ AttachStdin: bool, AttachStdout: bool, AttachStderr: bool, Tty: bool, Privileged: bool },
    ...{ DetachKeys: text, Env: texts, Cmd: texts, User: text, WorkingDir: text },
    ConsoleSize: size,
  }),
  ExecStart: object({ Detach: bool, Tty: bool, ConsoleSize: size }),
  NetworkCreate: object({
    ...{ Name: text, Driver: text, Scope: text, Internal: bool, Attachable: bool, Ingress: bool },
    ...{ ConfigOnly: bool, ConfigFrom: object({ Network: text }) },
    ...{ EnableIPv4: bool, EnableIPv6: bool, Options: textMap, Labels: textMap },
    IPAM: object({
      ...{ Driver: text, Options: textMap },
      Config: list(object({
        ...{ Subnet: subnet, IPRange: subnet, Gateway: address, AuxiliaryAddresses: textMap },
      })),
    }),
  }),
  NetworkChange: object({ Container: text, EndpointConfig: endpoint, Force: bool }),
  VolumeCreate: object({
    ...{ Name: text, Driver: text, DriverOpts: textMap, Labels: textMap },
  }),
  Login: login,
} as const;

export type Bodies = { [N in keyof typeof BODIES]: z.output<typeof BODIES[N]> };

type Config = typeof config;
export type ContainerConfig =
  & { [K in keyof Config]?: z.output<Config[K]> }
  & { [field: string]: unknown };
export type DockerMount = z.output<typeof mount>;
export type HostConfig = z.output<typeof hostConfig>;
export type EndpointSettings = z.output<typeof endpoint>;

/** Of a body that is not as it has to be: which member, and why. */
export function faultOf({ issues: [{ path, message }] }: z.ZodError): string {
  const why = message.replace(/^Invalid input: /, "");
  return path.length === 0 ? why : `${path.join(".")}: ${why}`;
}
