/** What docker's clients send to make a container (Docker Engine API, "ContainerCreate"); every member may be absent. */

export interface DockerHealthcheck {
  Test?: string[] | null;
  /** Nanoseconds, as all of its times. */
  Interval?: number;
  Timeout?: number;
  StartPeriod?: number;
  StartInterval?: number;
  Retries?: number;
}

export interface ContainerConfig {
  Hostname?: string;
  User?: string;
  Tty?: boolean;
  OpenStdin?: boolean;
  Env?: string[] | null;
  Cmd?: string[] | string | null;
  Entrypoint?: string[] | string | null;
  Image?: string;
  Labels?: Record<string, string> | null;
  Volumes?: Record<string, unknown> | null;
  WorkingDir?: string;
  ExposedPorts?: Record<string, unknown> | null;
  Healthcheck?: DockerHealthcheck | null;
  StopSignal?: string;
  /** Seconds. */
  StopTimeout?: number | null;
  NetworkDisabled?: boolean;
  MacAddress?: string;
  [field: string]: unknown;
}

export interface DockerMount {
  Type?: string;
  Source?: string;
  Target?: string;
  ReadOnly?: boolean;
  BindOptions?: Record<string, unknown> | null;
  VolumeOptions?:
    | {
      NoCopy?: boolean;
      Subpath?: string;
      Labels?: Record<string, string> | null;
      DriverConfig?: { Name?: string; Options?: Record<string, string> | null } | null;
    }
    | null;
  TmpfsOptions?: { SizeBytes?: number; Mode?: number } | null;
}

export interface HostConfig {
  Binds?: string[] | null;
  Mounts?: DockerMount[] | null;
  Tmpfs?: Record<string, string> | null;
  NetworkMode?: string;
  PortBindings?: Record<string, { HostIp?: string; HostPort?: string }[] | null> | null;
  PublishAllPorts?: boolean;
  RestartPolicy?: { Name?: string; MaximumRetryCount?: number } | null;
  AutoRemove?: boolean;
  Privileged?: boolean;
  CapAdd?: string[] | null;
  CapDrop?: string[] | null;
  Dns?: string[] | null;
  DnsOptions?: string[] | null;
  DnsSearch?: string[] | null;
  ExtraHosts?: string[] | null;
  GroupAdd?: string[] | null;
  IpcMode?: string;
  PidMode?: string;
  ReadonlyRootfs?: boolean;
  SecurityOpt?: string[] | null;
  ShmSize?: number;
  Sysctls?: Record<string, string> | null;
  Init?: boolean | null;
  Ulimits?: { Name: string; Soft: number; Hard: number }[] | null;
  Devices?:
    | { PathOnHost: string; PathInContainer?: string; CgroupPermissions?: string }[]
    | null;
  /** Bytes. */
  Memory?: number;
  MemoryReservation?: number;
  NanoCpus?: number;
  CpuPeriod?: number;
  CpuQuota?: number;
  LogConfig?: { Type?: string; Config?: Record<string, string> | null } | null;
  ConsoleSize?: [number, number] | null;
  [field: string]: unknown;
}

export interface EndpointSettings {
  Aliases?: string[] | null;
  IPAMConfig?: { IPv4Address?: string; IPv6Address?: string; LinkLocalIPs?: string[] } | null;
  MacAddress?: string;
  DriverOpts?: Record<string, string> | null;
  GwPriority?: number;
  Links?: string[] | null;
  [field: string]: unknown;
}

export interface CreateRequest extends ContainerConfig {
  HostConfig?: HostConfig | null;
  NetworkingConfig?: { EndpointsConfig?: Record<string, EndpointSettings | null> | null } | null;
}
