/** What the bare backend does with each field of a deployment spec. */
import type { Checked, FieldRules } from "../../../lib/deploy/fields.ts";

const told = (reason: string) => ({ told: reason });

const among = (...values: string[]): Checked<string> => ({
  only: values.join(" or "),
  check: (value) =>
    value === "" || values.includes(value)
      ? undefined
      : `${value} is not honoured by the bare backend`,
});

const SECURITY = /^(no-new-privileges([:=](true|false))?|seccomp[:=]unconfined)$/;
const SUBNETS = told("subnets come from SVC_CNI_SUBNET_BASE");
const IPV4 = told("networks of the bare backend have IPv4 alone");
const NO_CACHE = told("folders of the host are mounted themselves; there is no cache in between");
const CLUSTER_INGRESS = "a cluster's ingress controller; this server routes itself";

export const BARE_FIELDS: FieldRules = {
  name: "honoured",
  image: "honoured",
  command: "honoured",
  entrypoint: "honoured",
  env: "honoured",
  ports: {
    "": {
      only: "not on the networks host and none",
      check: (ports, { networks }) => {
        const apart = networks.find(({ name }) => name === "host" || name === "none");
        return ports.length > 0 && apart ? `not published on network ${apart.name}` : undefined;
      },
    },
    host: "honoured",
    container: "honoured",
    protocol: "honoured",
    hostIP: "honoured",
  },
  expose: { container: "honoured", protocol: "honoured" },
  mounts: {
    source: "honoured",
    target: "honoured",
    readOnly: "honoured",
    selinux: told("the bare backend sets no SELinux labels; label the folder on the host"),
    immutable: NO_CACHE,
    asyncCache: NO_CACHE,
  },
  volumes: {
    name: "honoured",
    target: "honoured",
    size: told("the bare backend's volumes have no limit"),
    storageClass: told("it names a cluster's storage; volumes are folders of the host here"),
    readOnly: "honoured",
    driver: among("local", "default"),
    driverOpts: told("volumes are folders of the host here, and need no options"),
    labels: "honoured",
  },
  networks: {
    name: "honoured",
    driver: among("bridge", "default"),
    driverOpts: told("bridges of the bare backend take no options"),
    aliases: {
      only: "on networks of their own",
      check: (alias, { networks: [{ name }] }) =>
        name === "host" || name === "none"
          ? `nobody is asked for ${alias} on network ${name}`
          : undefined,
    },
    default: "honoured",
    ip: told("addresses are given out; use the deployment's name or an alias"),
    subnet: SUBNETS,
    gateway: SUBNETS,
    ipRange: SUBNETS,
    internal: "honoured",
    attachable: {
      only: "true",
      check: (attachable) =>
        attachable ? undefined : "any deployment of this server may name the network",
    },
    enableIPv6: IPV4,
    labels: "honoured",
    ipv6: IPV4,
    mac: told("MAC addresses are given out"),
    priority: "honoured",
  },
  proxy: told("this build runs no proxy beside a workload"),
  dns: told("this build keeps no records for a workload; use extraHosts, or networks[].aliases"),
  hub: told("this build has no hub"),
  docker: told("this build gives workloads no Docker API"),
  credentials: told("this build delivers no credentials; use env, or a folder of the host"),
  restart: "honoured",
  restartMaxAttempts: {
    only: "with restart: on-failure",
    check: (_attempts, { restart }) =>
      restart === "on-failure" ? undefined : `restart: ${restart} does not count attempts`,
  },
  replicas: "honoured",
  privileged: "honoured",
  healthcheck: {
    test: "honoured",
    interval: "honoured",
    timeout: "honoured",
    startPeriod: "honoured",
    startInterval: "honoured",
    retries: "honoured",
  },
  resources: {
    cpuLimit: "honoured",
    memoryLimit: "honoured",
    reservedCpu: "honoured",
    reservedMemory: "honoured",
  },
  updateConfig: { parallelism: "honoured", order: "honoured" },
  user: "honoured",
  workingDir: "honoured",
  hostname: "honoured",
  labels: "honoured",
  origin: {
    project: "honoured",
    host: "honoured",
    user: "honoured",
    directory: "honoured",
    git: { remote: "honoured", branch: "honoured", commit: "honoured", dirty: "honoured" },
    subject: "honoured",
  },
  stopSignal: "honoured",
  stopGracePeriod: "honoured",
  init: "honoured",
  tty: "honoured",
  stdinOpen: "honoured",
  readOnly: "honoured",
  capAdd: "honoured",
  capDrop: "honoured",
  securityOpt: {
    only: "no-new-privileges and seccomp=unconfined",
    check: (option) =>
      SECURITY.test(option) ? undefined : `${option} is not honoured by the bare backend`,
  },
  groupAdd: "honoured",
  sysctls: "honoured",
  extraHosts: "honoured",
  dnsServers: "honoured",
  dnsSearch: "honoured",
  dnsOptions: "honoured",
  ulimits: { name: "honoured", soft: "honoured", hard: "honoured" },
  tmpfs: "honoured",
  devices: "honoured",
  shmSize: {
    only: "without ipcMode: host",
    check: (_size, { ipcMode }) =>
      ipcMode === "host" ? "with ipcMode: host it is the host's /dev/shm" : undefined,
  },
  pidMode: among("host", "private"),
  ipcMode: among("host", "private"),
  egress: told(
    "not honoured by the bare backend; networks[].internal keeps a workload from leaving",
  ),
  ingress: {
    enabled: "honoured",
    hosts: "honoured",
    domain: "honoured",
    subdomain: "honoured",
    path: "honoured",
    pathType: "honoured",
    port: "honoured",
    className: told(`it names ${CLUSTER_INGRESS}`),
    annotations: told(`they are for ${CLUSTER_INGRESS}`),
    tls: told("this server serves plain HTTP; HTTPS is for a proxy or a tunnel in front of it"),
  },
  knative: told("it is for a cluster with Knative"),
  agentForward: told("this build forwards no SSH agent to a workload"),
  telemetry: told("this build collects no telemetry; svc logs shows what a workload prints"),
  shells: "honoured",
  strict: "honoured",
};
