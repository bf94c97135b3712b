/**
 * SVC_ALLOW_PRIVILEGED: the parts of a spec that amount to root on the host, and whether this server permits
 * them. Every backend checks before it makes or starts an instance: a `deploy` credential alone never gives the
 * host's root.
 */
import { BlockList, isIP } from "node:net";
import type { DeploySpec, NetworkSpec } from "../api/deploy_spec.ts";
import { capabilityName, DEFAULT_CAPABILITIES } from "../base/capabilities.ts";
import { SvcError } from "../base/errors.ts";
import { isActedOn } from "./acted_on_labels.ts";

/** Sysctls that each network namespace has for itself. */
const OF_NETWORK = /^net\.[\w.-]+$/;

/** Sysctls that each IPC namespace has for itself. */
const OF_IPC = /^(kernel\.(msg(max|mnb|mni)|sem|shm(all|max|mni|_rmid_forced))|fs\.mqueue\.\w+)$/;

/** Options of a tmpfs volume. Other options, such as "bind", would override its type. */
const TMPFS_OPTIONS = /^((size|mode|uid|gid|nr_inodes)=\w+(,|$))*$/;

/** Drivers that put a network behind a bridge or an overlay of its own. */
const APART = ["", "default", "bridge", "overlay", "none", "null"];

/** Names of the engine's own driver of volumes. */
const LOCAL = ["", "default", "local"];

/** Names that stand for no device: a tmpfs has none. */
const NO_DEVICE = ["", "none", "tmpfs"];

/** Ranges for private use. A route to another one would take the host's own way to it. */
const PRIVATE = [["10.0.0.0", 8], ["172.16.0.0", 12], ["192.168.0.0", 16], ["fc00::", 7]] as const;

const own = (mode: string | undefined) => ["", "private", "shareable", "none"].includes(mode ?? "");

type Asked = (spec: DeploySpec) => string[];

const sysctls: Asked = ({ sysctls = {}, ipcMode, networks }) => {
  const ownNetwork = networks.every(({ name }) => name !== "host");
  return Object.keys(sysctls).filter((name) =>
    !(ownNetwork && OF_NETWORK.test(name) || own(ipcMode) && OF_IPC.test(name))
  );
};

/** A text that is no subnet is not private either. */
function isPrivate(subnet: string): boolean {
  const [, address, bits] = /^([^/]+)\/(\d+)$/.exec(subnet) ?? [];
  const family = isIP(address ?? "") === 6 ? "ipv6" : "ipv4";
  return PRIVATE.some(([from, size]) => {
    if (address === undefined || isIP(address) !== isIP(from) || Number(bits) < size) return false;
    const range = new BlockList();
    range.addSubnet(from, size, family);
    return range.check(address, family);
  });
}

const optionsOf = (options: Readonly<Record<string, string>>) =>
  Object.entries(options).map(([key, value]) => `${key}=${value}`);

const volumes: Asked = ({ volumes }) =>
  volumes.flatMap(({ driver = "", driverOpts = {} }) => {
    if (!LOCAL.includes(driver)) return [driver, ...optionsOf(driverOpts)];
    const { type, o = "", device = "", ...rest } = driverOpts;
    const inMemory = type === "tmpfs" && TMPFS_OPTIONS.test(o) && NO_DEVICE.includes(device) &&
      Object.keys(rest).length === 0;
    return inMemory ? [] : optionsOf(driverOpts);
  });

/** What of a network leads to the host's own links or takes the host's routes. */
function networkAsks({ name, driver = "", driverOpts = {}, subnet }: NetworkSpec): string[] {
  if (name === "host") return [name];
  return [
    ...(APART.includes(driver) ? [] : [driver]),
    // An option can name a bridge of the host's.
    ...optionsOf(driverOpts),
    ...(!subnet || isPrivate(subnet) ? [] : [subnet]),
  ];
}

/** Networks and volumes of an engine have labels too. */
const labels: Asked = ({ labels, networks, volumes }) =>
  [labels, ...[...networks, ...volumes].map((one) => one.labels)]
    .flatMap((all) => Object.keys(all ?? {})).filter(isActedOn);

/** Each kind is named after the spec's field that asks for it; its function gives the requested values. */
const KINDS = {
  privileged: ({ privileged }) => privileged ? ["true"] : [],
  pidMode: ({ pidMode }) => own(pidMode) ? [] : [pidMode!],
  ipcMode: ({ ipcMode }) => own(ipcMode) ? [] : [ipcMode!],
  // A driver such as macvlan puts the workload directly on the host's own link.
  networks: ({ networks }) => networks.flatMap(networkAsks),
  devices: ({ devices = [] }) => devices,
  capAdd: ({ capAdd = [] }) =>
    capAdd.filter((name) => !DEFAULT_CAPABILITIES.includes(capabilityName(name))),
  securityOpt: ({ securityOpt = [] }) =>
    securityOpt.filter((option) => !/^no-new-privileges([:=]true)?$/.test(option)),
  sysctls,
  // Drivers and their options can make a volume of a folder or a device of the engine's host.
  volumes,
  // Programs beside the engine that hold its socket do what such a label says.
  labels,
} as const satisfies Record<string, Asked>;

export type PrivilegedKind = keyof typeof KINDS;

/** Every kind that SVC_ALLOW_PRIVILEGED may name. */
export const PRIVILEGED_KINDS = Object.keys(KINDS) as readonly PrivilegedKind[];

/** What the spec asks for of those kinds; kinds without a request are left out. */
export const privilegesOf = (spec: DeploySpec, kinds = PRIVILEGED_KINDS) =>
  kinds.map((kind) => ({ kind, values: KINDS[kind](spec) }))
    .filter(({ values }) => values.length > 0);

/** Throws `denied`, naming each kind that is requested and not permitted. */
export function requirePermitted(spec: DeploySpec, permitted: readonly string[]): void {
  const asked = privilegesOf(spec, PRIVILEGED_KINDS.filter((kind) => !permitted.includes(kind)));
  if (asked.length === 0) return;
  const kinds = asked.map(({ kind }) => kind);
  const words = asked.map(({ kind, values }) => `${kind} (${values.join(", ")})`).join(", ");
  throw new SvcError(
    "denied",
    `Cannot deploy ${spec.name}: this server does not permit ${words}, which can amount to root on its host`,
    {
      help: `leave it out, or start the server with SVC_ALLOW_PRIVILEGED=${
        [...permitted, ...kinds].join(",")
      } (1 permits every kind)`,
      detail: { kinds },
    },
  );
}
