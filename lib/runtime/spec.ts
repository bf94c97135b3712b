/**
 * Generator of config.json (OCI Runtime Specification 1.0). The defaults are those of a docker container.
 * Limits and capabilities that the host cannot grant are reduced and reported, instead of failing.
 */
import { capabilityName, DEFAULT_CAPABILITIES, isCapability } from "../base/capabilities.ts";
import { SvcError } from "../base/errors.ts";
import type { DeviceNode } from "./device_node.ts";
import { decodeDocument, encodeDocument, UNLIMITED } from "./document.ts";
import type { HostFacts } from "./host_facts.ts";
import { deviceMounts, type MountOptions } from "./mounts.ts";
import { defaultSeccomp } from "./seccomp.ts";

export type { SpecMount } from "./mounts.ts";

/** Where a container's network comes from; `path` is a network namespace's file. */
export type NetworkMode = { path: string } | "host" | "none";

export interface Resources {
  /** Bytes. */
  memory?: number;
  /** Bytes, soft. */
  memoryReservation?: number;
  /** Processors, fractions allowed: becomes quota per period of 100 ms. */
  cpus?: number;
  /** Relative weight, 1024 is one processor's. */
  cpuShares?: number;
  pids?: number;
}

export interface Rlimit {
  /** "nofile" or "RLIMIT_NOFILE". */
  name: string;
  /** -1: unlimited. */
  soft: number;
  hard: number;
}

export interface Hook {
  /** Absolute, on the host. */
  path: string;
  args?: string[];
  env?: string[];
  /** Seconds. */
  timeout?: number;
}

export interface RuntimeSpecOptions extends Omit<MountOptions, "hostNetwork"> {
  /** Absolute path of the mounted root. */
  rootfs: string;
  args: string[];
  env: string[];
  /** Absolute; "/" if absent. */
  cwd?: string;
  user?: { uid: number; gid: number; additionalGids?: number[] };
  /** Names with or without "CAP_"; "ALL". */
  capAdd?: string[];
  capDrop?: string[];
  /** All capabilities and devices, nothing masked, no filter. */
  privileged?: boolean;
  hostname?: string;
  readonlyRootfs?: boolean;
  network: NetworkMode;
  /** "host" shares the host's. */
  pid?: "private" | "host";
  /** cgroupfs: absolute path below each controller; systemd: "slice:prefix:name". */
  cgroupPath?: string;
  resources?: Resources;
  rlimits?: Rlimit[];
  sysctls?: Record<string, string>;
  devices?: DeviceNode[];
  /** Programs of the host around the container's start, by the specification's names. */
  hooks?: Record<string, Hook[]>;
  terminal?: boolean;
  noNewPrivileges?: boolean;
  /** "default" if absent. */
  seccomp?: "default" | "unconfined";
  annotations?: Record<string, string>;
}

const MASKED = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
];

const READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

interface DeviceRule {
  allow: boolean;
  type?: string;
  major?: number;
  minor?: number;
  access: string;
}

/** The runtime makes the standard nodes. These rules allow opening them, and making any node. */
const DEVICE_RULES: DeviceRule[] = [
  { allow: false, access: "rwm" },
  { allow: true, type: "c", access: "m" },
  { allow: true, type: "b", access: "m" },
  ...[[1, 3], [1, 5], [1, 7], [1, 8], [1, 9], [5, 0], [5, 2]].map(([major, minor]) => ({
    allow: true,
    type: "c",
    major,
    minor,
    access: "rwm",
  })),
  { allow: true, type: "c", major: 136, access: "rwm" },
];

/** The parts of config.json that code reads or changes again. */
export interface RuntimeSpec {
  ociVersion: string;
  process: ProcessSpec;
  root: { path: string; readonly: boolean };
  hostname?: string;
  mounts: { destination: string; type: string; source: string; options: string[] }[];
  linux: Record<string, unknown> & { namespaces: { type: string; path?: string }[] };
  annotations?: Record<string, string>;
}

/** A process, also as the document of `exec --process`. */
export interface ProcessSpec {
  terminal: boolean;
  /** The terminal's size from the first moment on. */
  consoleSize?: { height: number; width: number };
  user: { uid: number; gid: number; additionalGids?: number[] };
  args: string[];
  env: string[];
  cwd: string;
  capabilities: Record<"bounding" | "effective" | "permitted", string[]>;
  rlimits: { type: string; soft: number | bigint; hard: number | bigint }[];
  noNewPrivileges: boolean;
}

export interface GeneratedSpec {
  spec: RuntimeSpec;
  /** A warning for each request that was reduced. */
  warnings: string[];
}

function capability(name: string): string {
  if (isCapability(name)) return capabilityName(name);
  throw new SvcError("argument_invalid", `Cannot use capability ${name}: no such capability`);
}

/** By docker's rules: ALL in one list is the base, to which the other list adds or from which it takes. */
function capabilitySet(options: RuntimeSpecOptions, facts: HostFacts, warnings: string[]) {
  const add = (options.capAdd ?? []).map(capability);
  const drop = (options.capDrop ?? []).map(capability);
  const wanted = new Set<string>(
    options.privileged || add.includes("CAP_ALL")
      ? facts.capabilities
      : drop.includes("CAP_ALL")
      ? []
      : DEFAULT_CAPABILITIES,
  );
  for (const name of drop) wanted.delete(name);
  for (const name of add) if (name !== "CAP_ALL") wanted.add(name);
  for (const name of wanted) {
    if (facts.capabilities.has(name)) continue;
    wanted.delete(name);
    if (add.includes(name)) warnings.push(`capAdd: ${name} is not available on this host`);
  }
  return wanted;
}

function clampRlimits(limits: Rlimit[], facts: HostFacts, warnings: string[]) {
  const mayRaise = facts.capabilities.has("CAP_SYS_RESOURCE") && !facts.userNamespace;
  return limits.map(({ name, soft, hard }) => {
    const type = name.toUpperCase().startsWith("RLIMIT_")
      ? name.toUpperCase()
      : `RLIMIT_${name.toUpperCase()}`;
    const ceiling = facts.hardLimits[type];
    if (ceiling === undefined) {
      throw new SvcError("argument_invalid", `Cannot set limit ${name}: no such limit`);
    }
    const asked = hard < 0 ? Infinity : hard;
    const top = mayRaise ? asked : Math.min(asked, ceiling);
    if (top < asked) {
      warnings.push(`ulimits: ${name} is limited to the host's hard limit of ${top}`);
    }
    const low = Math.min(soft < 0 ? Infinity : soft, top);
    const json = (value: number) => value === Infinity ? UNLIMITED : value;
    return { type, soft: json(low), hard: json(top) };
  });
}

/** The bounds of a container, as OCI documents and runtimes have them. */
export interface Bounds {
  memory?: { limit?: number; swap?: number; reservation?: number };
  cpu?: { quota?: number; period?: number; shares?: number };
  pids?: { limit: number };
}

/** The text of a runtime document with other bounds. */
export function withBounds(text: string, bounds: Bounds): string {
  const document = decodeDocument<{ linux: { resources: Bounds & { devices?: unknown } } }>(text);
  const { linux } = document;
  linux.resources = { devices: linux.resources.devices, ...bounds };
  return encodeDocument(document);
}

export function boundsOf(resources: Resources, facts: Pick<HostFacts, "limitsSwap">): Bounds {
  const period = 100_000;
  const memory = {
    ...(resources.memory !== undefined && { limit: resources.memory }),
    // Allows as much swap as memory, as docker does: without a limit the excess would go to the host's swap.
    ...(resources.memory !== undefined && facts.limitsSwap && { swap: 2 * resources.memory }),
    ...(resources.memoryReservation !== undefined && { reservation: resources.memoryReservation }),
  };
  const cpu = {
    ...(resources.cpus !== undefined && {
      quota: Math.max(1000, Math.round(resources.cpus * period)),
      period,
    }),
    ...(resources.cpuShares !== undefined && { shares: Math.max(2, resources.cpuShares) }),
  };
  return {
    ...(Object.keys(memory).length > 0 && { memory }),
    ...(Object.keys(cpu).length > 0 && { cpu }),
    ...(resources.pids !== undefined && { pids: { limit: resources.pids } }),
  };
}

/**
 * The user's primary group is also listed as a supplementary group. Otherwise a process that drops the group
 * could still be refused or allowed access by a group that it has left (CVE-2022-36109).
 */
export function processUser(
  { uid, gid, additionalGids = [] }: ProcessSpec["user"],
): ProcessSpec["user"] {
  return { uid, gid, additionalGids: [...new Set([gid, ...additionalGids])] };
}

function namespacesOf(
  { pid, ipc, network, privileged }: RuntimeSpecOptions,
  facts: HostFacts,
): { type: string; path?: string }[] {
  return [
    { type: "mount" },
    { type: "uts" },
    ...pid === "host" ? [] : [{ type: "pid" }],
    ...ipc === "host" ? [] : [{ type: "ipc" }],
    ...network === "host" ? [] : [{
      type: "network",
      ...(typeof network === "object" && { path: network.path }),
    }],
    ...facts.cgroup2 && !privileged ? [{ type: "cgroup" }] : [],
  ];
}

/** In a network namespace of its own, what docker sets there: low ports and ping without privilege. */
const networkSysctls = (facts: HostFacts) => ({
  "net.ipv4.ip_unprivileged_port_start": "0",
  // a user namespace's groups are fewer than that
  ...(!facts.userNamespace && { "net.ipv4.ping_group_range": "0 2147483647" }),
});

/** Makes config.json. Throws `argument_invalid` for unknown names. */
export function runtimeSpec(options: RuntimeSpecOptions, facts: HostFacts): GeneratedSpec {
  const warnings: string[] = [];
  const privileged = options.privileged ?? false;
  const capabilities = capabilitySet(options, facts, warnings);
  const names = [...capabilities].sort();
  const user = options.user ?? { uid: 0, gid: 0 };
  // execve of a user other than root has no effective set either; the bounding set limits setuid files
  const held = user.uid === 0 ? names : [];
  const seccomp = privileged || options.seccomp === "unconfined"
    ? undefined
    : defaultSeccomp(capabilities, facts.architecture);
  const extra = options.devices ?? [];
  const devices = privileged ? [{ allow: true, access: "rwm" }] : [
    ...DEVICE_RULES,
    ...extra.map(({ type, major, minor, access }) => ({ allow: true, type, major, minor, access })),
  ];
  const sysctl = {
    ...(options.network !== "host" && networkSysctls(facts)),
    ...options.sysctls,
  };
  return {
    warnings,
    spec: {
      ociVersion: "1.0.2",
      process: {
        terminal: options.terminal ?? false,
        user: processUser(user),
        args: options.args,
        env: options.env,
        cwd: options.cwd || "/",
        capabilities: { bounding: names, effective: held, permitted: held },
        rlimits: clampRlimits(options.rlimits ?? [], facts, warnings),
        noNewPrivileges: options.noNewPrivileges ?? false,
      },
      root: { path: options.rootfs, readonly: options.readonlyRootfs ?? false },
      ...(options.hostname && { hostname: options.hostname }),
      mounts: deviceMounts({ ...options, hostNetwork: options.network === "host" }, facts),
      linux: {
        namespaces: namespacesOf(options, facts),
        resources: { devices, ...boundsOf(options.resources ?? {}, facts) },
        ...(options.cgroupPath && { cgroupsPath: options.cgroupPath }),
        ...(Object.keys(sysctl).length > 0 && { sysctl }),
        ...(extra.length > 0 && {
          devices: extra.map(({ access: _access, ...device }) => device),
        }),
        ...(options.mounts?.some(({ shared }) => shared) && { rootfsPropagation: "shared" }),
        ...(seccomp && { seccomp }),
        ...(!privileged && { maskedPaths: MASKED, readonlyPaths: READ_ONLY }),
      },
      ...(options.hooks && { hooks: options.hooks }),
      ...(options.annotations && { annotations: options.annotations }),
    },
  };
}
