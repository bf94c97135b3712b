/** A service of a loaded Compose project, in the form that project.ts describes. */

/** Keys of the user's own, anywhere a block of fields stands. */
export interface Extensible {
  [extension: `x-${string}`]: unknown;
}

export interface Service extends Extensible {
  profiles?: string[];
  annotations?: Record<string, string>;
  /** False: `up` does not show its logs. */
  attach?: boolean;
  build?: Build;
  develop?: { watch?: WatchRule[] } & Extensible;
  blkio_config?: BlockIo;
  cap_add?: string[];
  cap_drop?: string[];
  cgroup_parent?: string;
  cgroup?: string;
  cpu_count?: number;
  cpu_percent?: number;
  cpu_period?: number;
  cpu_quota?: number;
  cpu_rt_period?: number;
  cpu_rt_runtime?: number;
  cpus?: number;
  cpuset?: string;
  cpu_shares?: number;
  /** An empty list clears the image's command; absent or null leaves it. */
  command?: string[] | null;
  configs?: FileReference[];
  container_name?: string;
  credential_spec?: { config?: string; file?: string; registry?: string } & Extensible;
  depends_on?: Record<string, Dependency>;
  deploy?: Deploy;
  device_cgroup_rules?: string[];
  devices?: DeviceMapping[];
  dns?: string[];
  dns_opt?: string[];
  dns_search?: string[];
  dockerfile?: string;
  domainname?: string;
  /** An empty list clears the image's entrypoint; absent or null leaves it. */
  entrypoint?: string[] | null;
  provider?: Provider;
  /** With what the env files say below it. null: the variable has no value anywhere, and is not set. */
  environment?: Record<string, string | null>;
  env_file?: EnvFile[];
  /** Ports or ranges, with or without protocol: "80", "8000-8010", "53/udp". */
  expose?: string[];
  extends?: { file?: string; service?: string };
  external_links?: string[];
  /** "host=address", sorted. */
  extra_hosts?: string[];
  group_add?: string[];
  gpus?: DeviceRequest[];
  hostname?: string;
  healthcheck?: HealthCheck;
  image?: string;
  init?: boolean;
  ipc?: string;
  isolation?: string;
  /** With what the label files say below it. */
  labels?: Record<string, string>;
  label_file?: string[];
  links?: string[];
  logging?: { driver?: string; options?: Record<string, string> } & Extensible;
  log_driver?: string;
  log_opt?: Record<string, string>;
  mem_limit?: string;
  mem_reservation?: string;
  memswap_limit?: string;
  mem_swappiness?: string;
  mac_address?: string;
  models?: Record<string, ({ endpoint_var?: string; model_var?: string } & Extensible) | null>;
  net?: string;
  network_mode?: string;
  /** null: attached, with nothing said of how. */
  networks?: Record<string, ServiceNetwork | null>;
  oom_kill_disable?: boolean;
  oom_score_adj?: number;
  pid?: string;
  pids_limit?: number;
  platform?: string;
  ports?: Port[];
  privileged?: boolean;
  pull_policy?: string;
  read_only?: boolean;
  restart?: string;
  runtime?: string;
  scale?: number;
  secrets?: FileReference[];
  security_opt?: string[];
  shm_size?: string;
  stdin_open?: boolean;
  stop_grace_period?: string;
  stop_signal?: string;
  storage_opt?: Record<string, string>;
  sysctls?: Record<string, string>;
  tmpfs?: string[];
  tty?: boolean;
  ulimits?: Record<string, Ulimit>;
  use_api_socket?: boolean;
  user?: string;
  userns_mode?: string;
  uts?: string;
  volume_driver?: string;
  volumes?: Mount[];
  volumes_from?: string[];
  working_dir?: string;
  post_start?: Hook[];
  pre_stop?: Hook[];
}

export interface Build extends Extensible {
  /** A directory (absolute), a URL, or a git repository. */
  context?: string;
  dockerfile?: string;
  dockerfile_inline?: string;
  entitlements?: string[];
  /** null: the argument has no value anywhere. */
  args?: Record<string, string | null>;
  provenance?: string;
  sbom?: string;
  /** By id, sorted; no path: the agent of SSH_AUTH_SOCK. */
  ssh?: { id: string; path?: string }[];
  labels?: Record<string, string>;
  cache_from?: string[];
  cache_to?: string[];
  no_cache?: boolean;
  /** Directory (absolute), URL, `docker-image://…` or `service:NAME`. */
  additional_contexts?: Record<string, string>;
  pull?: boolean;
  extra_hosts?: string[];
  isolation?: string;
  network?: string;
  target?: string;
  secrets?: FileReference[];
  shm_size?: string;
  tags?: string[];
  ulimits?: Record<string, Ulimit>;
  platforms?: string[];
  privileged?: boolean;
}

export interface WatchRule extends Extensible {
  path: string;
  action: "sync" | "rebuild" | "restart" | "sync+restart" | "sync+exec";
  target?: string;
  exec?: Hook;
  include?: string[];
  ignore?: string[];
  initial_sync?: boolean;
}

/** A command of `post_start`, `pre_stop` or a watch rule. */
export interface Hook extends Extensible {
  command?: string[] | null;
  user?: string;
  privileged?: boolean;
  working_dir?: string;
  environment?: Record<string, string | null>;
}

export interface BlockIo extends Extensible {
  weight?: number;
  weight_device?: { path: string; weight: number }[];
  device_read_bps?: { path: string; rate: string }[];
  device_read_iops?: { path: string; rate: string }[];
  device_write_bps?: { path: string; rate: string }[];
  device_write_iops?: { path: string; rate: string }[];
}

/** A config or a secret in a service or a build. */
export interface FileReference extends Extensible {
  /** Key of the project's `configs` or `secrets`. */
  source?: string;
  /** Default of a secret: /run/secrets/SOURCE; of a config: /SOURCE, not written out. */
  target?: string;
  uid?: string;
  gid?: string;
  /** Octal text: "0440". */
  mode?: string;
}

export interface Dependency extends Extensible {
  condition: "service_started" | "service_healthy" | "service_completed_successfully";
  /** Restarted when the service it names is. */
  restart?: boolean;
  /** False: a dependency that is not there is only warned of. */
  required: boolean;
}

export interface Deploy extends Extensible {
  mode?: string;
  replicas?: number;
  labels?: Record<string, string>;
  update_config?: UpdateConfig;
  rollback_config?: UpdateConfig;
  resources?: { limits?: Resource; reservations?: Resource } & Extensible;
  restart_policy?: RestartPolicy;
  placement?: {
    constraints?: string[];
    preferences?: ({ spread?: string } & Extensible)[];
    max_replicas_per_node?: number;
  } & Extensible;
  endpoint_mode?: string;
}

export interface UpdateConfig extends Extensible {
  parallelism?: number;
  delay?: string;
  failure_action?: string;
  monitor?: string;
  max_failure_ratio?: number;
  order?: string;
}

export interface RestartPolicy extends Extensible {
  condition?: string;
  delay?: string;
  max_attempts?: number;
  window?: string;
}

export interface Resource extends Extensible {
  /** Number of CPUs. */
  cpus?: number;
  memory?: string;
  pids?: number;
  devices?: DeviceRequest[];
  generic_resources?: { discrete_resource_spec?: { kind: string; value: number } }[];
}

export interface DeviceRequest extends Extensible {
  capabilities?: string[];
  driver?: string;
  /** -1: all. */
  count?: number;
  device_ids?: string[];
  options?: Record<string, string>;
}

export interface DeviceMapping extends Extensible {
  source?: string;
  target?: string;
  permissions?: string;
}

export interface Provider extends Extensible {
  type?: string;
  options?: Record<string, string[]>;
}

export interface EnvFile {
  path: string;
  /** False: a file that is not there is passed over. */
  required: boolean;
  /** "raw": lines are taken without interpolation. */
  format?: string;
}

export interface HealthCheck extends Extensible {
  /** Begins with "CMD", "CMD-SHELL" or "NONE". */
  test?: string[];
  timeout?: string;
  interval?: string;
  retries?: number;
  start_period?: string;
  start_interval?: string;
  disable?: boolean;
}

export interface ServiceNetwork extends Extensible {
  aliases?: string[];
  driver_opts?: Record<string, string>;
  gw_priority?: number;
  interface_name?: string;
  ipv4_address?: string;
  ipv6_address?: string;
  link_local_ips?: string[];
  mac_address?: string;
  priority?: number;
}

export interface Port extends Extensible {
  name?: string;
  mode?: string;
  host_ip?: string;
  /** The container's. */
  target: number;
  /** The host's: a number, or a range to choose from ("8080-8090"); absent: any free port. */
  published?: string;
  protocol?: string;
  app_protocol?: string;
}

export interface Mount extends Extensible {
  type: "bind" | "volume" | "tmpfs" | "npipe" | "cluster" | "image";
  /** Host path (absolute), key of the project's `volumes`, image; absent: an anonymous volume or a tmpfs. */
  source?: string;
  target: string;
  read_only?: boolean;
  consistency?: string;
  bind?: {
    selinux?: string;
    propagation?: string;
    create_host_path?: boolean;
    recursive?: string;
  } & Extensible;
  volume?: { labels?: Record<string, string>; nocopy?: boolean; subpath?: string } & Extensible;
  tmpfs?: { size?: string; mode?: number } & Extensible;
  image?: { subpath?: string } & Extensible;
}

/** One limit for both, or a soft and a hard one. */
export type Ulimit = number | { soft?: number; hard?: number };
