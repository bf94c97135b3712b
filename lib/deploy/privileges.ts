/**
 * SVC_ALLOW_PRIVILEGED: the parts of a spec that amount to root on the host, and whether this server permits
 * them. Every backend checks before it makes or starts an instance: a `deploy` credential alone never gives the
 * host's root.
 */
import type { DeploySpec } from "../api/deploy_spec.ts";
import { capabilityName, DEFAULT_CAPABILITIES } from "../base/capabilities.ts";
import { SvcError } from "../base/errors.ts";

/** Sysctls that each network namespace has for itself. */
const OF_NETWORK = /^net\.[\w.-]+$/;

/** Sysctls that each IPC namespace has for itself. */
const OF_IPC = /^(kernel\.(msg(max|mnb|mni)|sem|shm(all|max|mni|_rmid_forced))|fs\.mqueue\.\w+)$/;

/** Options of a tmpfs volume. Other options, such as "bind", would override its type. */
const TMPFS_OPTIONS = /^((size|mode|uid|gid|nr_inodes)=\w+(,|$))*$/;

/** Drivers that put a network behind a bridge or an overlay of its own. */
const APART = ["", "default", "bridge", "overlay", "none", "null"];

const own = (mode: string | undefined) => ["", "private", "shareable", "none"].includes(mode ?? "");

type Asked = (spec: DeploySpec) => string[];

const sysctls: Asked = ({ sysctls = {}, ipcMode, networks }) => {
  const ownNetwork = networks.every(({ name }) => name !== "host");
  return Object.keys(sysctls).filter((name) =>
    !(ownNetwork && OF_NETWORK.test(name) || own(ipcMode) && OF_IPC.test(name))
  );
};

const volumes: Asked = ({ volumes }) =>
  volumes.flatMap(({ driver = "local", driverOpts = {} }) => {
    const { type, o = "", device: _device, ...rest } = driverOpts;
    const inMemory = driver === "local" && type === "tmpfs" && TMPFS_OPTIONS.test(o) &&
      Object.keys(rest).length === 0;
    return inMemory ? [] : Object.entries(driverOpts).map(([key, value]) => `${key}=${value}`);
  });

/** Each kind is named after the spec's field that asks for it; its function gives the requested values. */
const KINDS = {
  privileged: ({ privileged }) => privileged ? ["true"] : [],
  pidMode: ({ pidMode }) => own(pidMode) ? [] : [pidMode!],
  ipcMode: ({ ipcMode }) => own(ipcMode) ? [] : [ipcMode!],
  // A driver such as macvlan puts the workload directly on the host's own link.
  networks: ({ networks }) =>
    networks.flatMap(({ name, driver = "" }) =>
      name === "host" ? [name] : APART.includes(driver) ? [] : [driver]
    ),
  devices: ({ devices = [] }) => devices,
  capAdd: ({ capAdd = [] }) =>
    capAdd.filter((name) => !DEFAULT_CAPABILITIES.includes(capabilityName(name))),
  securityOpt: ({ securityOpt = [] }) =>
    securityOpt.filter((option) => !/^no-new-privileges([:=]true)?$/.test(option)),
  sysctls,
  // Driver options can make a volume of a folder or a device of the engine's host.
  volumes,
} as const satisfies Record<string, Asked>;

export type PrivilegedKind = keyof typeof KINDS;

/** Every kind that SVC_ALLOW_PRIVILEGED may name. */
export const PRIVILEGED_KINDS = Object.keys(KINDS) as readonly PrivilegedKind[];

/** Throws `denied`, naming each kind that is requested and not permitted. */
export function requirePermitted(spec: DeploySpec, permitted: readonly string[]): void {
  const asked = PRIVILEGED_KINDS.filter((kind) => !permitted.includes(kind))
    .map((kind) => ({ kind, values: KINDS[kind](spec) }))
    .filter(({ values }) => values.length > 0);
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
