/**
 * A spec as Incus's description of an instance. A spec reaches the keys and devices below and no others: none that
 * loosens what keeps the instance apart (security.*, raw.*, nesting).
 */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { PublishedPort } from "../../../lib/api/deployment.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import { type ContainerPlan, containerPlan } from "../../../lib/deploy/container_config.ts";
import type { IncusClient } from "../../../lib/incus/client.ts";
import type { Devices } from "../../../lib/incus/types.ts";
import type { RuntimeUser } from "../../../lib/runtime/user.ts";
import type { ContainerRequest } from "../shared/engine_api/engine.ts";
import { containerLabels } from "../shared/engine_api/labels.ts";
import { longVariables, processOf } from "./entrypoint.ts";
import { configOf, keyOf } from "./place.ts";

/** The health check of an instance, for a server that finds it running. */
export const HEALTH = keyOf("svc.health");
/** When svc starts it again: a `RestartRule`. Absent: never, or not yet. */
export const RESTART = keyOf("svc.restart");
/** "1": stopped on purpose. */
export const HALTED = keyOf("svc.halted");
/** Variables of several lines, for further commands. */
export const LONG_VARIABLES = keyOf("svc.environment");
/** The number of the signal that asks it to end. */
export const STOP_SIGNAL = keyOf("svc.stop-signal");

/** Host ports lead to instances through these devices. */
export const PORT_DEVICE = "svc-port-";
export const MOUNT_DEVICE = "svc-mount-";

/** The folder that an instance shares with its companion. Incus mounts memory over /run. */
export const AGENTS = "/svc/agents";

/** Whatever the profile says: what an image holds decides neither for the daemon nor for its host. */
export const APART = {
  "security.guestapi": "false",
  "security.nesting": "false",
  "security.privileged": "false",
};

/** Has LXC log how a process ended, which Incus does not tell. */
const LOG_ENDS = "lxc.log.level = info";

export const planOf = ({ spec, image, env }: ContainerRequest): ContainerPlan =>
  containerPlan(spec, image.config ?? {}, { env });

function limits({ resources = {}, ulimits = [] }: DeploySpec, pidsLimit: number) {
  const { cpuLimit, memoryLimit } = resources;
  const limit = (value: number) => value < 0 ? "unlimited" : String(value);
  return {
    ...(cpuLimit &&
      { "limits.cpu.allowance": `${Math.max(1, Math.round(cpuLimit * 100))}ms/100ms` }),
    ...(memoryLimit && { "limits.memory": `${memoryLimit}B` }),
    ...(pidsLimit > 0 && { "limits.processes": String(pidsLimit) }),
    ...Object.fromEntries(
      ulimits.map(({ name, soft, hard }) => [
        `limits.kernel.${name}`,
        `${limit(soft)}:${limit(hard)}`,
      ]),
    ),
  };
}

/** The profile's network interfaces, which an instance of ours has not: it is on its own networks alone. */
export async function maskedNics(client: IncusClient, attempted: string): Promise<Devices> {
  const { devices } = await client.get<{ devices: Devices }>({
    path: "/profiles/default",
    attempted,
  });
  return Object.fromEntries(
    Object.entries(devices).filter(([, { type }]) => type === "nic")
      .map(([name]) => [name, { type: "none" }]),
  );
}

/** The configuration of the instance of this name in Incus; keys that Incus keeps for itself are not in it. */
export function configOfInstance(
  request: ContainerRequest,
  { args, env, workingDir, stopSignal, health }: ContainerPlan,
  name: string,
  { uid, gid, home }: RuntimeUser,
): Record<string, string> {
  const { spec, server, replica, rehearsal, pidsLimit } = request;
  return {
    ...APART,
    ...configOf(containerLabels(spec, { server, replica, rehearsal })),
    ...Object.fromEntries(
      Object.entries(spec.sysctls ?? {}).map(([name, value]) => [`linux.sysctl.${name}`, value]),
    ),
    ...limits(spec, pidsLimit),
    ...(health && { [HEALTH]: JSON.stringify(health) }),
    [STOP_SIGNAL]: stopSignal,
    ...processOf({ args, env: [`HOME=${home}`, `HOSTNAME=${name}`, ...env] }),
    [LONG_VARIABLES]: JSON.stringify(longVariables(env)),
    "oci.cwd": workingDir,
    "oci.uid": String(uid),
    "oci.gid": String(gid),
    "raw.lxc": `${LOG_ENDS}\nlxc.signal.halt = ${stopSignal}`,
  };
}

const shown = (address: string) => address.includes(":") ? `[${address}]` : address;

/** The devices. `masked`: see {@linkcode maskedNics}. */
export function devicesOf(
  { spec, attachments, sources, rehearsal, shared }: ContainerRequest,
  { ports, pool, masked }: {
    ports: readonly PublishedPort[];
    pool: string;
    masked: Devices;
  },
): Devices {
  if (attachments.kind === "host") {
    throw new SvcError("unsupported", `Cannot deploy ${spec.name}: Incus has no network host`, {
      help: "publish its ports, or use another backend",
    });
  }
  const nics = attachments.kind === "networks" ? attachments.networks : [];
  const fixed = ({ ip, mac, enableIPv6 }: (typeof nics)[number]["spec"]) => ({
    // Incus would wait seconds for an address that nobody gives.
    ...(!enableIPv6 && { "ipv6.address": "none" }),
    ...(ip && !rehearsal && { "ipv4.address": ip }),
    ...(mac && !rehearsal && { hwaddr: mac }),
  });
  return {
    ...masked,
    ...Object.fromEntries(nics.map(({ id, spec }, index) => [
      `eth${index}`,
      { type: "nic", name: `eth${index}`, network: id, ...fixed(spec) },
    ])),
    ...Object.fromEntries(spec.mounts.map(({ target, readOnly }, index) => [
      `${MOUNT_DEVICE}${index}`,
      {
        type: "disk",
        source: sources[index],
        path: target,
        shift: "true",
        ...(readOnly && { readonly: "true" }),
      },
    ])),
    ...Object.fromEntries(spec.volumes.map(({ name, target, readOnly }, index) => [
      `svc-volume-${index}`,
      { type: "disk", pool, source: name, path: target, ...(readOnly && { readonly: "true" }) },
    ])),
    ...(shared !== undefined && {
      "svc-agents": { type: "disk", pool, source: shared, path: AGENTS, readonly: "true" },
    }),
    ...Object.fromEntries(ports.map(({ hostIP, host, container, protocol }, index) => [
      `${PORT_DEVICE}${index}`,
      {
        type: "proxy",
        listen: `${protocol}:${shown(hostIP)}:${host}`,
        connect: `${protocol}:127.0.0.1:${container}`,
      },
    ])),
  };
}
