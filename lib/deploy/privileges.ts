/**
 * SVC_ALLOW_PRIVILEGED: what of a spec amounts to root on the host, and whether this server permits it. Every
 * backend asks before it makes or starts an instance: a `deploy` credential alone is never the host's root.
 */
import type { DeploySpec } from "../api/deploy_spec.ts";
import { capabilityName, DEFAULT_CAPABILITIES } from "../base/capabilities.ts";
import { SvcError } from "../base/errors.ts";

/** Sysctls that a network namespace has of its own. */
const OF_NETWORK = /^net\.[\w.-]+$/;

/** Those of an IPC namespace. */
const OF_IPC = /^(kernel\.(msg(max|mnb|mni)|sem|shm(all|max|mni|_rmid_forced))|fs\.mqueue\.\w+)$/;

/** What a volume in memory may be told: with other words, "bind" for one, its type would mean nothing. */
const TMPFS_OPTIONS = /^((size|mode|uid|gid|nr_inodes)=\w+(,|$))*$/;

/** Drivers that keep a network behind a bridge or an overlay of its own. */
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

/** Each kind is named as the field of the spec that asks for it; the values are what is asked. */
const KINDS = {
  privileged: ({ privileged }) => privileged ? ["true"] : [],
  pidMode: ({ pidMode }) => own(pidMode) ? [] : [pidMode!],
  ipcMode: ({ ipcMode }) => own(ipcMode) ? [] : [ipcMode!],
  // A driver such as macvlan puts the workload beside the host, on the host's own link.
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
  // An engine's own volumes may be folders and devices of its host.
  volumes,
} as const satisfies Record<string, Asked>;

export type PrivilegedKind = keyof typeof KINDS;

/** Every kind that SVC_ALLOW_PRIVILEGED may name. */
export const PRIVILEGED_KINDS = Object.keys(KINDS) as readonly PrivilegedKind[];

/** Throws `denied`, naming each kind that is asked for and not permitted. */
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
