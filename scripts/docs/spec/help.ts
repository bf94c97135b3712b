/** What each field of a deployment spec means, with an example: for the reference page and openapi.json. */
import type { FieldTable } from "../../../lib/api/deploy_spec_fields.ts";
import {
  CREDENTIALS,
  DOCKER,
  EGRESS,
  HUB,
  INGRESS,
  KNATIVE,
  PROXY,
  TELEMETRY,
} from "./help_services.ts";

const PORT = {
  container: ["Port inside the container.", 8080],
  protocol: ["tcp, udp or sctp.", "udp"],
} as const;

const MOUNTS: FieldTable["mounts"] = [
  "Folders and files of the server's host. Each has to lie below a folder that the server's " +
  "`SVC_ALLOW_BIND_SOURCES` names. Short: `source:target[:ro]`.",
  ["/srv/site:/site:ro"],
  {
    source: ["Absolute path on the server's host.", "/srv/site"],
    target: ["Absolute path in the container.", "/site"],
    readOnly: ["The container cannot change it.", true],
    selinux: ["Relabels it: `shared` between workloads, or `private` to this one.", "shared"],
    immutable: ["What is in it never changes: it may be cached without asking.", true],
    asyncCache: ["Writes are answered before they are on the other side.", true],
  },
];

const VOLUMES: FieldTable["volumes"] = [
  "Folders that the server keeps under a name. They outlive the deployment, and deployments that " +
  "name the same one share it. A new one begins as a copy of what the image has there. Short: " +
  "`name:target[:ro]`.",
  ["data:/var/lib/app"],
  {
    name: ["The volume's name.", "data"],
    target: ["Absolute path in the container.", "/var/lib/app"],
    size: ["How much it may hold.", "10Gi"],
    storageClass: ["Kind of storage, where the backend has several.", "fast"],
    readOnly: ["The container cannot change it.", true],
    driver: ["What makes the volume.", "local"],
    driverOpts: ["The driver's own options.", { type: "tmpfs" }],
    labels: ["Kept with the volume; they take the place of those it had.", { team: "shop" }],
  },
];

const NETWORKS: FieldTable["networks"] = [
  "Networks to be on; one is made where it is missing, and goes with its last deployment. " +
  "Deployments on the same network reach each other by name. `host` is the host's own, `none` is " +
  "none; either stands alone. Without the field: the network `default`. Short: the name.",
  ["front", { name: "back", internal: true }],
  {
    name: ["The network's name.", "front"],
    driver: ["What makes the network.", "bridge"],
    driverOpts: ["The driver's own options.", { "com.docker.network.driver.mtu": "1450" }],
    aliases: ["More names for the deployment on this network.", ["db"]],
    default: ["The way out is through this network.", true],
    ip: ["Address on this network.", "10.9.0.7"],
    subnet: ["Addresses of the network.", "10.9.0.0/24"],
    gateway: ["Address of the network's gateway.", "10.9.0.1"],
    ipRange: ["Part of the subnet that addresses are given out of.", "10.9.0.128/25"],
    internal: ["Nothing beyond the network is reached.", true],
    attachable: ["Other deployments may attach to it.", true],
    enableIPv6: ["The network has IPv6 addresses too.", true],
    labels: ["Kept with the network.", { team: "shop" }],
    ipv6: ["IPv6 address on this network.", "fd00:9::7"],
    mac: ["MAC address on this network.", "02:42:0a:09:00:07"],
    priority: ["Networks with a higher number are attached first.", 10],
  },
];

const HEALTHCHECK: FieldTable["healthcheck"] = [
  "A command that is run again and again in the container: while it fails, the instance is no " +
  "replacement and takes no place. Each field that is left out is the image's, else docker's default.",
  { test: ["CMD", "wget", "-q", "-O-", "http://127.0.0.1:8080/healthz"], interval: "10s" },
  {
    test: [
      "A text is run by the shell; a list begins with `CMD` (arguments), `CMD-SHELL` (a text) or " +
      "`NONE` (no check).",
      ["CMD", "test", "-e", "/tmp/ok"],
    ],
    interval: ["Time between two checks; 30s where nobody says.", "10s"],
    timeout: ["How long one may take; 30s where nobody says.", "5s"],
    startPeriod: ["For how long after the start failures do not count.", "30s"],
    startInterval: ["Time between two checks during `startPeriod`; 5s where nobody says.", "1s"],
    retries: ["Failures in a row that make it unhealthy; 3 where nobody says.", 5],
  },
];

const ORIGIN: FieldTable["origin"] = [
  "Where it was deployed from, for people: `svc status` shows it. A change of it alone replaces " +
  "nothing.",
  { project: "shop" },
  {
    project: ["The project's name.", "shop"],
    host: ["The machine it was deployed from.", "laptop"],
    user: ["Who was logged in there.", "ada"],
    directory: ["The folder.", "/home/ada/shop"],
    git: ["The folder's state in git.", { branch: "main" }, {
      remote: ["URL of the remote.", "https://git.example.com/shop.git"],
      branch: ["The branch.", "main"],
      commit: ["The commit.", "1a2b3c4d5e6f"],
      dirty: ["There were changes that no commit has.", true],
    }],
    subject: ["Who deployed it: the server writes it, whatever a spec says.", "ci"],
  },
];

export const DEPLOY_SPEC_HELP: FieldTable = {
  name: [
    "What the deployment is called: lower case letters, digits and `-`. Instances are NAME-0, " +
    "NAME-1 and so on. A spec of the same name replaces it.",
    "web",
  ],
  image: [
    "The image to run. A name without a registry is this server's own where it has it, else Docker " +
    "Hub's.",
    "app:v1",
  ],
  command: [
    "Arguments of the image's entrypoint, in place of the image's `CMD`. One text is split at " +
    "blanks, with quotes.",
    ["serve", "--port", "8080"],
  ],
  entrypoint: [
    "The program to run, in place of the image's `ENTRYPOINT`; the image's `CMD` is then left out.",
    ["/usr/bin/app"],
  ],
  env: ["Environment variables: a map, or a list of `NAME=VALUE`.", { MODE: "fast" }],
  ports: [
    "Ports of the container that the host publishes. Short: `[[hostIP:]host:]container[/protocol]`, " +
    "each port possibly a range such as `8000-8010`, or a number alone for the container's.",
    ["8080:80", { host: 5353, container: 53, protocol: "udp" }],
    {
      host: ["Port on the host; 0 or none: a free one is chosen.", 8080],
      ...PORT,
      hostIP: ["Address of the host to publish on; none: all of them.", "127.0.0.1"],
    },
  ],
  expose: [
    "Ports that are declared and not published: `svc port-forward`, sessions and ingress find them. " +
    "Short: `container[/protocol]`.",
    [9090],
    PORT,
  ],
  mounts: MOUNTS,
  volumes: VOLUMES,
  networks: NETWORKS,
  proxy: PROXY,
  dns: [
    "Names that are answered for this workload alone.",
    { records: { "db.internal": "10.0.0.5" } },
    {
      records: ["Host names and what they lead to.", { "db.internal": "10.0.0.5" }],
      requireUserNet: ["Refuses to run on a network where the names cannot be answered.", true],
    },
  ],
  hub: HUB,
  docker: DOCKER,
  credentials: CREDENTIALS,
  restart: [
    "When an instance that ended is started again: `no`, `on-failure`, `on-failure:ATTEMPTS`, " +
    "`always` or `unless-stopped`.",
    "on-failure",
  ],
  restartMaxAttempts: ["Attempts of `restart: on-failure`; none: without end.", 5],
  replicas: ["How many instances of it run.", 2],
  privileged: [
    "The container may do what the host's root may. The server has to permit it " +
    "(`SVC_ALLOW_PRIVILEGED`).",
    true,
  ],
  healthcheck: HEALTHCHECK,
  resources: ["Limits, and what is set aside.", { cpuLimit: 0.5, memoryLimit: "64Mi" }, {
    cpuLimit: ["Processors it may use: a number, or `500m` for half of one.", 0.5],
    memoryLimit: ["Memory it may use; over it, the kernel ends it.", "64Mi"],
    reservedCpu: ["Its share of the processors while others want them too.", 0.25],
    reservedMemory: ["Memory that it keeps while the host is short of it.", "32Mi"],
  }],
  updateConfig: ["How replicas are replaced.", { parallelism: 1, order: "start-first" }, {
    parallelism: ["How many at a time; 0: all.", 1],
    order: [
      "`start-first`: the new instance runs before the old one ends; `stop-first`: the other way round.",
      "start-first",
    ],
  }],
  user: ["User to run as, in place of the image's: `name`, `uid` or `uid:gid`.", "1000:1000"],
  workingDir: ["Folder to run in, in place of the image's.", "/srv"],
  hostname: ["The container's host name; none: the instance's name.", "web"],
  labels: ["Kept with the deployment; `svc status` shows them.", { team: "shop" }],
  origin: ORIGIN,
  stopSignal: ["Signal that asks it to end, in place of the image's.", "SIGINT"],
  stopGracePeriod: [
    "How long it may take to end before it is killed; 10s where none is set.",
    "30s",
  ],
  init: ["A small init is process 1: it passes signals on and reaps what was left behind.", true],
  tty: ["The main process has a terminal.", true],
  stdinOpen: ["The main process's standard input stays open.", true],
  readOnly: ["The container's root cannot be written to; volumes and `tmpfs` can.", true],
  capAdd: [
    "Capabilities more than docker's default ones. The server has to permit those " +
    "(`SVC_ALLOW_PRIVILEGED`).",
    ["NET_BIND_SERVICE"],
  ],
  capDrop: ["Capabilities to do without; `ALL` for every one.", ["ALL"]],
  securityOpt: [
    "Docker's security options. What loosens has to be permitted (`SVC_ALLOW_PRIVILEGED`).",
    ["no-new-privileges"],
  ],
  groupAdd: ["More groups of its user, as names or numbers.", ["audio", "3000"]],
  sysctls: [
    "Kernel settings. Those of its own network and IPC namespaces are free, others have to be " +
    "permitted (`SVC_ALLOW_PRIVILEGED`).",
    { "net.core.somaxconn": "1024" },
  ],
  extraHosts: [
    "Lines of /etc/hosts: a map, or a list of `name:address`; `host-gateway` is the host.",
    { "db.internal": "10.0.0.5" },
  ],
  dnsServers: ["Resolvers, in place of the network's.", ["10.0.0.53"]],
  dnsSearch: ["Search domains of the resolver; `.` for none.", ["example.com"]],
  dnsOptions: ["Options of the resolver.", ["ndots:2"]],
  ulimits: [
    "Limits of its processes. Also as a list of `name=soft[:hard]`, or a map from names to numbers.",
    ["nofile=1024:2048"],
    {
      name: ["The limit.", "nofile"],
      soft: ["What applies; -1: none.", 1024],
      hard: ["How far the process may raise it; -1: as far as it wants.", 2048],
    },
  ],
  tmpfs: [
    "Folders in memory: `/path[:option,…]`, with options of mount such as `size=64m`; nosuid, nodev " +
    "and noexec unless an option says otherwise.",
    ["/tmp:size=64m"],
  ],
  devices: [
    "Devices of the host: `/dev/host[:/dev/inside[:rwm]]`. The server has to permit them " +
    "(`SVC_ALLOW_PRIVILEGED`).",
    ["/dev/fuse"],
  ],
  shmSize: ["Size of /dev/shm; 64Mi where none is set.", "128Mi"],
  pidMode: [
    "`host` shares the host's processes; the server has to permit it (`SVC_ALLOW_PRIVILEGED`).",
    "private",
  ],
  ipcMode: [
    "`host` shares the host's shared memory; the server has to permit it (`SVC_ALLOW_PRIVILEGED`).",
    "private",
  ],
  egress: EGRESS,
  ingress: INGRESS,
  knative: KNATIVE,
  agentForward: ["The caller's SSH agent is reachable in the workload.", true],
  telemetry: TELEMETRY,
  shells: [
    "Shells for `svc exec -it NAME`, the best first; then bash, ash and sh are tried.",
    ["/bin/zsh"],
  ],
  strict: [
    "Refuses the deployment where the backend does not do something that the spec asks for, instead " +
    "of a warning.",
    true,
  ],
};
