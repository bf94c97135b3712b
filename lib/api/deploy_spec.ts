/**
 * The deployment spec (DESIGN.md section 6) after the check, with shorthand expanded. This module has types
 * only, so that importing it costs nothing; deploy_spec_parse.ts makes a spec from text or JSON.
 *
 * Durations are Go duration texts ("1m30s"), sizes are bytes: the JSON of a spec is again a valid spec.
 */

import type { EgressSpec } from "./egress.ts";

export const RESTART_POLICIES = ["no", "on-failure", "always", "unless-stopped"] as const;
export type RestartPolicy = typeof RESTART_POLICIES[number];

export interface PortSpec {
  /** Absent or 0: a free port is chosen. */
  host?: number;
  container: number;
  protocol: "tcp" | "udp" | "sctp";
  /** Absent: every address of the host. */
  hostIP?: string;
}

/** A declared port that is not published; port-forward, sessions and ingress can reach it. */
export interface ExposedPort {
  container: number;
  protocol: "tcp" | "udp" | "sctp";
}

export interface MountSpec {
  /** Path on the deploy target's host. */
  source: string;
  target: string;
  readOnly?: boolean;
  /** SELinux relabelling: shared between workloads, or private to one. */
  selinux?: "shared" | "private";
  /** The content does not change while it is mounted: readers may cache it. */
  immutable?: boolean;
  asyncCache?: boolean;
}

export interface VolumeSpec {
  name: string;
  target: string;
  /** Bytes. */
  size?: number;
  storageClass?: string;
  readOnly?: boolean;
  driver?: string;
  driverOpts?: Record<string, string>;
  labels?: Record<string, string>;
}

export interface NetworkSpec {
  name: string;
  driver?: string;
  driverOpts?: Record<string, string>;
  aliases?: string[];
  /** True for the network whose gateway is the default route. */
  default?: boolean;
  ip?: string;
  subnet?: string;
  gateway?: string;
  ipRange?: string;
  internal?: boolean;
  attachable?: boolean;
  enableIPv6?: boolean;
  labels?: Record<string, string>;
  ipv6?: string;
  mac?: string;
  priority?: number;
}

export interface HealthcheckSpec {
  /** First item CMD, CMD-SHELL or NONE. */
  test?: string[];
  interval?: string;
  timeout?: string;
  startPeriod?: string;
  startInterval?: string;
  retries?: number;
}

export interface ResourcesSpec {
  /** Processors, fractions allowed. */
  cpuLimit?: number;
  /** Bytes. */
  memoryLimit?: number;
  reservedCpu?: number;
  reservedMemory?: number;
}

export interface UlimitSpec {
  name: string;
  /** -1: unlimited. */
  soft: number;
  hard: number;
}

export interface CredentialDelivery {
  kind: string;
  provider?: string;
  wellKnown?: string;
  upstream?: string;
  path?: string;
  format?: string;
  envVar?: string;
  valueKey?: string;
}

export interface CredentialSource {
  name: string;
  backend?: string;
  config?: Record<string, string>;
  ttl?: string;
  deliver?: CredentialDelivery[];
}

export interface OriginSpec {
  project?: string;
  host?: string;
  user?: string;
  directory?: string;
  git?: { remote?: string; branch?: string; commit?: string; dirty?: boolean };
  /** Set by the server. */
  subject?: string;
}

export interface IngressSpec {
  enabled?: boolean;
  hosts?: string[];
  domain?: string;
  subdomain?: string;
  path?: string;
  pathType?: "Exact" | "Prefix" | "ImplementationSpecific";
  port?: number;
  className?: string;
  annotations?: Record<string, string>;
  tls?: boolean | { secretName?: string; hosts?: string[] };
}

export interface KnativeSpec {
  enabled?: boolean;
  minScale?: number;
  maxScale?: number;
  initialScale?: number;
  containerConcurrency?: number;
  target?: number;
  metric?: string;
  class?: string;
  timeout?: string;
}

export interface TelemetrySpec {
  enabled?: boolean;
  traces?: boolean;
  metrics?: boolean;
  logs?: boolean;
  serviceName?: string;
  attributes?: Record<string, string>;
}

export interface DeploySpec {
  /** A DNS label; the deployment's name everywhere. */
  name: string;
  image: string;
  command?: string[];
  entrypoint?: string[];
  env: Record<string, string>;
  ports: PortSpec[];
  expose?: ExposedPort[];
  mounts: MountSpec[];
  volumes: VolumeSpec[];
  networks: NetworkSpec[];
  proxy?: { mode?: string; allow?: string[]; ports?: number[]; listenPort?: number };
  dns?: { records?: Record<string, string>; requireUserNet?: boolean };
  hub?: { identity?: string; export?: string[]; import?: string[]; importDynamic?: boolean };
  docker?: { transport?: string; port?: number; socketPath?: string; envVar?: string };
  credentials?: { sources: CredentialSource[] };
  restart: RestartPolicy;
  /** Attempts of `on-failure`; absent: unlimited. */
  restartMaxAttempts?: number;
  replicas: number;
  privileged?: boolean;
  healthcheck?: HealthcheckSpec;
  resources?: ResourcesSpec;
  updateConfig?: { parallelism?: number; order?: "start-first" | "stop-first" };
  user?: string;
  workingDir?: string;
  hostname?: string;
  labels?: Record<string, string>;
  origin?: OriginSpec;
  stopSignal?: string;
  stopGracePeriod?: string;
  init?: boolean;
  tty?: boolean;
  stdinOpen?: boolean;
  readOnly?: boolean;
  capAdd?: string[];
  capDrop?: string[];
  securityOpt?: string[];
  groupAdd?: string[];
  sysctls?: Record<string, string>;
  /** Host name → address. */
  extraHosts?: Record<string, string>;
  dnsServers?: string[];
  dnsSearch?: string[];
  dnsOptions?: string[];
  ulimits?: UlimitSpec[];
  /** "/path[:option,…]"; nosuid, nodev and noexec unless an option says otherwise. */
  tmpfs?: string[];
  /** "/dev/host[:/dev/inside[:rwm]]". */
  devices?: string[];
  /** Bytes. */
  shmSize?: number;
  pidMode?: string;
  ipcMode?: string;
  egress?: EgressSpec;
  ingress?: IngressSpec;
  knative?: KnativeSpec;
  agentForward?: boolean;
  telemetry?: TelemetrySpec;
  shells?: string[];
  /** True: a field that the backend does not honour is an error instead of a warning. */
  strict?: boolean;
}
