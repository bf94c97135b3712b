/** The fields of a service, in the order in which docker compose prints them. */
import { deploy, device } from "./deploy.ts";
import {
  count,
  duration,
  flag,
  list,
  map,
  NAME,
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
} from "./shape.ts";

const switched = flag({ result: "switch" });
const named = { identity: "name" } as const;
const wordOr = { takes: ["text", "boolean"], form: "text" } as const;

const command: Shape = {
  takes: ["nothing", "text", "list"],
  items: text(),
  result: "command",
  merge: "replace",
  always: "null",
};

const hosts: Shape = {
  takes: ["mapping", "list"],
  values: { takes: ["text", "list"], items: text(), result: "raw" },
  items: text(),
  distinct: true,
  merge: "hosts",
  result: "hosts",
};

const ulimits: Shape = {
  takes: ["mapping"],
  keys: /^[a-z]+$/,
  values: {
    takes: ["integer", "text", "mapping"],
    fields: { soft: count({ kept: true }), hard: count({ kept: true }) },
    required: ["soft", "hard"],
    merge: "ulimit",
    result: "ulimit",
  },
  result: "map",
};

const reference = (identity: "config" | "secret" | undefined): Shape =>
  list(
    struct({
      source: text(),
      target: text(),
      uid: text(),
      gid: text(),
      mode: { takes: ["number", "text"], result: "mode" },
    }, { takes: ["mapping", "text"], form: "reference" }),
    { ...(identity && { identity }) },
  );

const hook = struct({
  command: { ...command, merge: undefined },
  user: text(),
  privileged: flag(),
  working_dir: text(),
  environment: pairs("environment", { merge: undefined, identity: undefined }),
}, { required: ["command"] });

const build = struct({
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
  additional_contexts: pairs("labels", { form: "pairs", path: "context" }),
  pull: flag(),
  extra_hosts: hosts,
  isolation: text(),
  network: text(),
  target: text(),
  secrets: reference(undefined),
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
  target: count(),
  published: text({ takes: ["text", "integer"] }),
  protocol: text(),
  app_protocol: text(),
}, { takes: ["number", "text", "mapping"] });

const mount = struct({
  type: text({ words: ["bind", "volume", "tmpfs", "cluster", "npipe", "image"] }),
  source: text(),
  target: text(),
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
  test: { takes: ["text", "list"], items: text(), result: "test", merge: "replace" },
  timeout: duration(),
  interval: duration(),
  retries: count({ takes: ["number", "text"], result: "number" }),
  start_period: duration(),
  start_interval: duration(),
  disable: flag(),
});

const watch = struct({
  path: text({ kept: true, path: "link" }),
  action: text({ kept: true, words: ["rebuild", "sync", "restart", "sync+restart", "sync+exec"] }),
  target: text(),
  exec: { ...hook, inline: true, always: "struct" },
  include: textOrSet({ form: "strings" }),
  ignore: textOrSet({ form: "strings" }),
  initial_sync: flag({ takes: ["boolean"] }),
}, { required: ["path", "action"] });

const dependency = struct({
  condition: text({
    words: ["service_started", "service_healthy", "service_completed_successfully"],
  }),
  restart: flag(),
  required: flag({ takes: ["boolean"], kept: true }),
}, { required: ["condition"] });

const envFile = struct({
  path: text({ path: "path" }),
  required: flag({ kept: true }),
  format: text(),
}, { takes: ["mapping", "text"], required: ["path"], extensible: false });

export const SERVICE: Shape = struct({
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
  configs: reference("config"),
  container_name: text({ pattern: /[a-zA-Z0-9][a-zA-Z0-9_.-]+/ }),
  credential_spec: struct({ config: text(), file: text(), registry: text() }),
  depends_on: map(dependency, {
    takes: ["mapping", "list"],
    items: text(),
    distinct: true,
    merge: "depends",
    form: "depends",
  }),
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
  provider: struct({
    type: text(),
    options: {
      takes: ["mapping"],
      values: {
        takes: ["text", "number", "boolean", "list"],
        items: { takes: ["text", "number", "boolean"], result: "text" },
        result: "strings",
      },
      result: "lists",
    },
  }, { required: ["type"] }),
  environment: pairs("environment"),
  env_file: list(envFile, {
    takes: ["list", "text"],
    merge: "sequence",
    form: "envFiles",
    identity: "envFile",
  }),
  expose: list({ takes: ["text", "number"], result: "text" }, {
    result: "strings",
    distinct: true,
    identity: "expose",
  }),
  extends: struct({ file: text({ path: "path" }), service: text() }, {
    takes: ["mapping", "text"],
    required: ["service"],
    extensible: false,
    form: "extends",
  }),
  external_links: set(),
  extra_hosts: hosts,
  group_add: list({ takes: ["text", "number"], result: "text" }, {
    result: "strings",
    distinct: true,
  }),
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
  models: map(
    struct({ endpoint_var: text(), model_var: text() }, { takes: ["mapping", "nothing"] }),
    {
      takes: ["mapping", "list"],
      items: text(),
      distinct: true,
      merge: "keyed",
      form: "names",
    },
  ),
  network_mode: text(),
  networks: map(network, {
    takes: ["mapping", "list"],
    items: text(),
    distinct: true,
    merge: "keyed",
    form: "names",
  }),
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
  secrets: reference("secret"),
  security_opt: set(),
  shm_size: size(),
  stdin_open: flag(),
  stop_grace_period: duration(),
  stop_signal: text(),
  storage_opt: { takes: ["mapping"], result: "options" },
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

export const SERVICES: Shape = map(SERVICE, { keys: NAME });
