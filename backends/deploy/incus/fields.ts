/** What the incus backend does with each field of a deployment spec. */
import { posix } from "node:path";
import type { Checked, FieldRules } from "../../../lib/deploy/fields.ts";
import { lostVariables } from "./entrypoint.ts";
import { among, honoured, hostFields, networkApart, told } from "../shared/fields.ts";

const COMMON = hostFields("incus", "the daemon's host");
const UNPRIVILEGED = told("instances of the incus backend are unprivileged containers");
const RESOLVER = told("the daemon's bridge resolves names; networks[].aliases adds some");
const GIVEN_OUT = told("the daemon gives out addresses");

const SEEN: Checked<string> = {
  only: "not below /run or /dev/shm",
  check: (target) =>
    /^\/(run|dev\/shm)(\/|$)/.test(posix.normalize(target))
      ? "Incus mounts memory over it: the workload does not see it"
      : undefined,
};

const single = <V>(): Checked<V> => ({
  only: "with one replica",
  check: (value, { replicas }) =>
    value && replicas > 1 ? `${replicas} replicas cannot have the same` : undefined,
});

export const INCUS_FIELDS: FieldRules = {
  ...COMMON,
  env: {
    only: "of several lines where the image has sh, and a shell takes the name",
    check: (env) => {
      const lost = lostVariables(Object.entries(env).map(([name, value]) => `${name}=${value}`));
      return lost.length > 0
        ? `no shell takes names like ${lost.join(", ")}, whose values have several lines: left out`
        : undefined;
    },
  },
  credentials: told(
    "the incus backend mounts no files of the server; use env, or a folder of the host",
  ),
  mounts: { ...COMMON.mounts, target: SEEN },
  privileged: UNPRIVILEGED,
  capAdd: UNPRIVILEGED,
  capDrop: UNPRIVILEGED,
  securityOpt: UNPRIVILEGED,
  pidMode: told("an instance has its own processes"),
  ipcMode: told("an instance has its own"),
  init: told("the entrypoint is the first process; use an image with an init"),
  stdinOpen: {
    only: "with tty",
    check: (open, { tty }) =>
      open && !tty ? "the input of an instance is a terminal: set tty too" : undefined,
  },
  readOnly: told("the root of an instance can be written"),
  groupAdd: told("Incus sets one group"),
  devices: told("the incus backend passes no devices on"),
  shmSize: told("an instance's /dev/shm has the size that Incus gives it"),
  tmpfs: told("the incus backend mounts no memory"),
  hostname: told("an instance's name in Incus is its host name"),
  extraHosts: RESOLVER,
  dnsServers: RESOLVER,
  dnsSearch: RESOLVER,
  dnsOptions: RESOLVER,
  ports: {
    ...honoured("host", "container", "hostIP"),
    protocol: among("incus", "tcp", "udp") as Checked<"tcp" | "udp" | "sctp">,
    "": {
      only: "not on the network none; with several replicas they lead to the first",
      check: (ports, spec) => {
        if (ports.length === 0) return undefined;
        const apart = networkApart(spec);
        if (apart) return `not published on network ${apart}`;
        return spec.replicas > 1
          ? "Incus leads a host port to one instance: replica 0; ingress leads to all"
          : undefined;
      },
    },
  },
  volumes: {
    ...honoured("name", "size", "readOnly", "labels"),
    target: SEEN,
    storageClass: told("it names a cluster's storage; SVC_INCUS_STORAGE_POOL names the pool"),
    driver: among("incus", "local", "default"),
    driverOpts: told("volumes are of the storage pool, whose driver has its own options"),
  },
  networks: {
    ...honoured("name", "subnet", "gateway", "internal", "enableIPv6", "labels"),
    driver: among("incus", "bridge", "default"),
    driverOpts: told("the daemon's bridges take no options from a spec"),
    aliases: {
      only: "on networks of their own",
      check: (alias, spec) => {
        const apart = networkApart(spec);
        return alias && apart ? `nobody is asked for names on network ${apart}` : undefined;
      },
    },
    default: told("the first network is the way out"),
    priority: told("networks are attached in their order"),
    ip: single(),
    mac: single(),
    ipv6: GIVEN_OUT,
    ipRange: GIVEN_OUT,
    attachable: {
      only: "true",
      check: (attachable) =>
        attachable ? undefined : "any deployment of this server may name the network",
    },
  },
  healthcheck: honoured("test", "interval", "timeout", "startPeriod", "startInterval", "retries"),
  resources: {
    ...honoured("cpuLimit", "memoryLimit"),
    reservedCpu: told("Incus reserves no processors"),
    reservedMemory: told("Incus reserves no memory"),
  },
};
