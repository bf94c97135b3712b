/** The fields of a service, in the order in which docker compose prints them. */
import { deploy, device } from "./deploy.ts";
import {
  count,
  duration,
  flag,
  list,
  map,
  needed,
  options,
  pairs,
  set,
  type Shape,
  single,
  size,
  strings,
  struct,
  text,
  textOrSet,
  type Valued,
} from "./shape.ts";

const switched = flag({ result: "switch" });
const named = { identity: "name" } as const;
const textOrNumber = text({ takes: ["text", "number"] });
const wordOr = { takes: ["text", "boolean"], form: "text" } as const;

const command: Shape<string[] | null, false> = {
  takes: ["nothing", "text", "list"],
  items: text(),
  result: "command",
  merge: "replace",
  always: "null",
};

const hosts: Shape<string[], false> = {
  takes: ["mapping", "list"],
  values: { takes: ["text", "list"], items: text(), result: "raw" },
  items: text(),
  distinct: true,
  merge: "hosts",
  result: "hosts",
};

const soft = count({ kept: true });
const ulimit: Shape<number | { soft?: number; hard?: number }> = {
  takes: ["integer", "text", "mapping"],
  fields: { soft, hard: soft },
  required: ["soft", "hard"],
  merge: "ulimit",
  result: "ulimit",
};
const ulimits = map(ulimit, { keys: /^[a-z]+$/ });

/** A config or a secret in a service or a build. */
export const reference = struct({
  /** Key of the project's `configs` or `secrets`. */
  source: text(),
  /** Default of a secret: /run/secrets/SOURCE; of a config: /SOURCE, not written out. */
  target: text(),
  uid: text(),
  gid: text(),
  mode: text({ takes: ["number", "text"], result: "mode" }),
}, { takes: ["mapping", "text"], form: "reference" });

/** A command of `post_start`, `pre_stop` or a watch rule. */
export const hook = struct({
  command: { ...command, merge: undefined },
  user: text(),
  privileged: flag(),
  working_dir: text(),
  environment: pairs("environment", { merge: undefined, identity: undefined }),
}, { required: ["command"] });

export const build = struct({
  /** A directory (absolute), a URL, or a git repository. */
  context: text({ path: "context" }),
  dockerfile: text(),
  dockerfile_inline: text(),
  entitlements: strings(),
  args: pairs("environment"),
  provenance: text(wordOr),
  sbom: text(wordOr),
  ssh: pairs("ssh", { form: "ssh", merge: undefined, identity: undefined, path: "unix" }),
  labels: pairs("labels"),
  cache_from: strings(),
  cache_to: strings(),
  no_cache: flag(),
  /** Directory (absolute), URL, `docker-image://…` or `service:NAME`. */
  additional_contexts: pairs("labels", { form: "pairs", path: "context" }),
  pull: flag(),
  extra_hosts: hosts,
  isolation: text(),
  network: text(),
  target: text(),
  secrets: list(reference),
  shm_size: size({ takes: ["integer", "text"] }),
  tags: strings(named),
  ulimits,
  platforms: strings(),
  privileged: flag(),
}, { takes: ["mapping", "text"], merge: "build", form: "build" });

const rates = list(
  struct({
    path: text({ kept: true, jsonName: "Path" }),
    rate: size({ takes: ["integer", "text"], kept: true, jsonName: "Rate" }),
  }, { extensible: false }),
);

const blockIo = struct({
  weight: count(),
  weight_device: list(
    struct({
      path: text({ kept: true, jsonName: "Path" }),
      weight: count({ kept: true, jsonName: "Weight" }),
    }, { extensible: false }),
  ),
  device_read_bps: rates,
  device_read_iops: rates,
  device_write_bps: rates,
  device_write_iops: rates,
}, { extensible: false });

const network = struct({
  aliases: set(named),
  driver_opts: options(["text", "number"]),
  gw_priority: count({ takes: ["number"] }),
  interface_name: text(),
  ipv4_address: text(),
  ipv6_address: text(),
  link_local_ips: set(named),
  mac_address: text(),
  priority: count({ takes: ["number"] }),
}, { takes: ["mapping", "nothing"] });

const port = struct({
  name: text(),
  mode: text(),
  host_ip: text(),
  /** The container's. */
  target: needed(count()),
  /** The host's: a number, or a range to choose from ("8080-8090"); absent: any free port. */
  published: text({ takes: ["text", "integer"] }),
  protocol: text(),
  app_protocol: text(),
}, { takes: ["number", "text", "mapping"] });

export const mount = struct({
  type: text({ words: ["bind", "volume", "tmpfs", "cluster", "npipe", "image"] }),
  /** Host path (absolute), key of the project's `volumes`, image; absent: an anonymous volume or a tmpfs. */
  source: text(),
  target: needed(text()),
  read_only: flag(),
  consistency: text(),
  bind: struct({
    selinux: text({ words: ["z", "Z"] }),
    propagation: text(),
    create_host_path: flag(),
    recursive: text({ words: ["enabled", "disabled", "writable", "readonly"] }),
  }),
  volume: struct({ labels: pairs("labels"), nocopy: flag(), subpath: text() }),
  tmpfs: struct({
    size: size({ takes: ["integer", "text"], range: [0, Infinity] }),
    mode: count({ takes: ["number", "text"] }),
  }),
  image: struct({ subpath: text() }),
}, { takes: ["mapping", "text"], required: ["type"], form: "mount", path: "mount" });

const health = struct({
  test: text({ takes: ["text", "list"], items: text(), result: "test", merge: "replace" }),
  timeout: duration(),
  interval: duration(),
  retries: count({ takes: ["number", "text"], result: "number" }),
  start_period: duration(),
  start_interval: duration(),
  disable: flag(),
});

export const watch = struct({
  path: text({ kept: true, path: "link" }),
  action: text({ kept: true, words: ["rebuild", "sync", "restart", "sync+restart", "sync+exec"] }),
  target: text(),
  exec: { ...hook, inline: true, always: "struct" },
  include: textOrSet({ form: "strings" }),
  ignore: textOrSet({ form: "strings" }),
  initial_sync: flag({ takes: ["boolean"] }),
}, { required: ["path", "action"] });

export const dependency = struct({
  condition: text({
    words: ["service_started", "service_healthy", "service_completed_successfully"],
  }),
  /** Restarted when the service it names is. */
  restart: flag(),
  /** False: a dependency that is not there is only warned of. */
  required: flag({ takes: ["boolean"], kept: true }),
}, { required: ["condition"] });

export const envFile = struct({
  path: text({ path: "path" }),
  /** False: a file that is not there is passed over. */
  required: flag({ kept: true }),
  /** "raw": lines are taken without interpolation. */
  format: text(),
}, { takes: ["mapping", "text"], required: ["path"], extensible: false });

const model = struct({ endpoint_var: text(), model_var: text() }, {
  takes: ["mapping", "nothing"],
});

/** A mapping, or a list of its keys. */
const byName = {
  ...{ takes: ["mapping", "list"], items: text(), distinct: true } as const,
  ...{ merge: "keyed", form: "names" } as const,
};

export const provider = struct({
  type: text(),
  options: text({
    takes: ["mapping"],
    values: strings({
      takes: ["text", "number", "boolean", "list"],
      items: text({ takes: ["text", "number", "boolean"] }),
    }),
    result: "lists",
  }),
}, { required: ["type"] });

export const SERVICE = struct({
  profiles: set(named),
  annotations: pairs("labels"),
  attach: switched,
  build,
  develop: struct({ watch: list(watch) }, { takes: ["mapping", "nothing"] }),
  blkio_config: blockIo,
  cap_add: set(named),
  cap_drop: set(named),
  cgroup_parent: text(),
  cgroup: text({ words: ["host", "private"] }),
  cpu_count: count({ range: [0, Infinity] }),
  cpu_percent: single({ takes: ["integer", "text"], range: [0, 100] }),
  cpu_period: count({ takes: ["number", "text"] }),
  cpu_quota: count({ takes: ["number", "text"] }),
  cpu_rt_period: count({ takes: ["number", "text"] }),
  cpu_rt_runtime: count({ takes: ["number", "text"] }),
  cpus: single(),
  cpuset: text(),
  cpu_shares: count({ takes: ["number", "text"] }),
  command,
  configs: list(reference, { identity: "config" }),
  container_name: text({ pattern: /[a-zA-Z0-9][a-zA-Z0-9_.-]+/ }),
  credential_spec: struct({ config: text(), file: text(), registry: text() }),
  depends_on: map(dependency, { ...byName, merge: "depends", form: "depends" }),
  deploy,
  device_cgroup_rules: set(),
  devices: list(
    struct({ source: text(), target: text(), permissions: text() }, {
      takes: ["mapping", "text"],
      required: ["source"],
      form: "device",
    }),
    { identity: "device" },
  ),
  dns: textOrSet({ merge: "sequence", form: "strings", ...named }),
  dns_opt: set({ merge: "sequence", ...named }),
  dns_search: textOrSet({ merge: "sequence", ...named }),
  domainname: text(),
  entrypoint: command,
  provider,
  environment: pairs("environment"),
  env_file: list(envFile, {
    takes: ["list", "text"],
    merge: "sequence",
    form: "envFiles",
    identity: "envFile",
  }),
  /** Ports or ranges, with or without protocol: "80", "8000-8010", "53/udp". */
  expose: set({ items: textOrNumber, identity: "expose" }),
  extends: struct({ file: text({ path: "path" }), service: text() }, {
    takes: ["mapping", "text"],
    required: ["service"],
    extensible: false,
    form: "extends",
  }),
  external_links: set(),
  extra_hosts: hosts,
  group_add: set({ items: textOrNumber }),
  gpus: list(device, { takes: ["list", "text"], words: ["all"], form: "gpus" }),
  hostname: text(),
  healthcheck: health,
  image: text(),
  init: switched,
  ipc: text(),
  isolation: text(),
  labels: pairs("labels"),
  label_file: strings({
    takes: ["list", "text"],
    merge: "sequence",
    form: "strings",
    path: "path",
  }),
  links: set(named),
  logging: struct({ driver: text(), options: options(["text", "number", "nothing"]) }, {
    merge: "logging",
  }),
  mem_limit: size(),
  mem_reservation: size({ takes: ["integer", "text"] }),
  memswap_limit: size(),
  mem_swappiness: size({ takes: ["integer", "text"] }),
  mac_address: text(),
  models: map(model, byName),
  network_mode: text(),
  /** null: attached, with nothing said of how. */
  networks: map<Valued<typeof network> | null>(network, byName),
  oom_kill_disable: flag(),
  oom_score_adj: count({ range: [-1000, 1000] }),
  pid: text({ takes: ["text", "nothing"] }),
  pids_limit: count({ takes: ["number", "text"] }),
  platform: text(),
  ports: list(port, { distinct: true, identity: "port", form: "ports" }),
  privileged: flag(),
  pull_policy: text({
    pattern:
      /always|never|build|if_not_present|missing|refresh|daily|weekly|every_([0-9]+[wdhms])+/,
  }),
  pull_refresh_after: text({ result: "raw" }),
  read_only: flag(),
  restart: text(),
  runtime: text(),
  scale: count({ result: "number" }),
  secrets: list(reference, { identity: "secret" }),
  security_opt: set(),
  shm_size: size(),
  stdin_open: flag(),
  stop_grace_period: duration(),
  stop_signal: text(),
  storage_opt: text({ takes: ["mapping"], result: "options" }),
  sysctls: pairs("labels"),
  tmpfs: textOrSet({ merge: "sequence", ...named }),
  tty: flag(),
  ulimits,
  use_api_socket: flag({ takes: ["boolean"] }),
  user: text(),
  userns_mode: text(),
  uts: text(),
  volumes: list(mount, { distinct: true, identity: "mount" }),
  volumes_from: set(),
  working_dir: text(),
  post_start: list(hook),
  pre_stop: list(hook),
});

export const SERVICES = map(SERVICE);
