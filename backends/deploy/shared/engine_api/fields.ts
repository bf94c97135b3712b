/** What engines that speak the Docker Engine API do with each field of a deployment spec. */
import type { Checked, FieldRules } from "../../../../lib/deploy/fields.ts";

const told = (reason: string) => ({ told: reason });

const NO_CACHE = told(
  "folders of the engine's host are mounted themselves; there is no cache in between",
);
const CLUSTER_INGRESS = "a cluster's ingress controller; this server routes itself";
const SECURITY =
  /^(no-new-privileges([:=](true|false))?|seccomp[:=]unconfined|(apparmor|label)[:=].+|systempaths[:=]unconfined)$/;

/** The networks host and none are the workload's only one, and have no addresses to give out. */
const onNetworks = <V>(what: string): Checked<V> => ({
  only: "on networks of their own",
  check: (value, { networks }) => {
    const apart = networks.find(({ name }) => name === "host" || name === "none");
    return value && apart ? `${what} on network ${apart.name}` : undefined;
  },
});

/** `backend`: its name in reasons. */
export function engineFields(backend: string): FieldRules {
  const namespaces: Checked<string> = {
    only: "host or private",
    check: (value) =>
      ["", "host", "private"].includes(value)
        ? undefined
        : `${value} is not honoured by the ${backend} backend`,
  };
  const single = <V>(): Checked<V> => ({
    only: "with one replica",
    check: (value, { replicas }) =>
      value && replicas > 1 ? `${replicas} replicas cannot have the same` : undefined,
  });
  return {
    name: "honoured",
    image: "honoured",
    command: "honoured",
    entrypoint: "honoured",
    env: "honoured",
    ports: {
      "": {
        only: "not on the networks host and none; with several replicas they lead to the first",
        check: (ports, { networks, replicas }) => {
          const apart = networks.find(({ name }) => name === "host" || name === "none");
          if (ports.length === 0) return undefined;
          if (apart) return `not published on network ${apart.name}`;
          return replicas > 1
            ? "the engine leads a host port to one container: replica 0; ingress leads to all"
            : undefined;
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
      selinux: told("label the folder on the engine's host"),
      immutable: NO_CACHE,
      asyncCache: NO_CACHE,
    },
    volumes: {
      name: "honoured",
      target: "honoured",
      size: told("the engine's local volumes have no limit; driverOpts of a tmpfs have one"),
      storageClass: told("it names a cluster's storage; use driver"),
      readOnly: "honoured",
      driver: "honoured",
      driverOpts: "honoured",
      labels: "honoured",
    },
    networks: {
      name: "honoured",
      driver: "honoured",
      driverOpts: "honoured",
      aliases: onNetworks("nobody is asked for names"),
      default: "honoured",
      ip: single(),
      subnet: "honoured",
      gateway: "honoured",
      ipRange: "honoured",
      internal: "honoured",
      attachable: "honoured",
      enableIPv6: "honoured",
      labels: "honoured",
      ipv6: single(),
      mac: single(),
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
      startInterval: {
        only: "within startPeriod, by Docker 25 and later",
        check: (_value, { healthcheck }) =>
          healthcheck?.startPeriod ? undefined : "without startPeriod the engine does not use it",
      },
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
    hostname: {
      only: "not on the network host",
      check: (hostname, { networks }) =>
        hostname && networks.some(({ name }) => name === "host")
          ? "on network host the engine's host gives the name"
          : undefined,
    },
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
      only: "no-new-privileges, seccomp=unconfined, apparmor=, label= and systempaths=unconfined",
      check: (option) =>
        SECURITY.test(option) ? undefined : `${option} is not honoured by the ${backend} backend`,
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
    pidMode: namespaces,
    ipcMode: namespaces,
    egress: told(
      `not honoured by the ${backend} backend; networks[].internal keeps a workload from leaving`,
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
}
