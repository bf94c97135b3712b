/** What Incus says of an instance, together with what svc knows of it, as the deployments read it. */
import { FROZEN, type Instance, RUNNING } from "../../../lib/incus/types.ts";
import type { InstanceHealth, PublishedPort } from "../../../lib/api/deployment.ts";
import type { RestartRule } from "../../../lib/deploy/restarts.ts";
import type { Inspected } from "../shared/engine_api/inspect.ts";
import { MOUNT_DEVICE, PORT_DEVICE, RESTART } from "./instance.ts";
import { labelsOf } from "./place.ts";

/** What Incus keeps no account of. */
export interface Known {
  restarts: number;
  /** A restart is due. */
  waiting: boolean;
  exitCode: number;
  finishedAt: string;
  health?: InstanceHealth;
}

export const isRunning = ({ status_code }: Pick<Instance, "status_code">) =>
  status_code === RUNNING || status_code === FROZEN;

/** The policy of a rule by which svc starts it again. */
const policyOf = (rule = "") => rule === "" ? "no" : (JSON.parse(rule) as RestartRule).policy;

const LISTEN = /^(tcp|udp):(?:\[([^\]]+)\]|([^:]+)):(\d+)$/;

export function portOf({ listen, connect }: Record<string, string>): PublishedPort | undefined {
  const [, protocol, six, four, host] = LISTEN.exec(listen ?? "") ?? [];
  const container = Number(/:(\d+)$/.exec(connect ?? "")?.[1]);
  if (!protocol || !container) return undefined;
  return {
    hostIP: six ?? four,
    host: Number(host),
    container,
    protocol: protocol as PublishedPort["protocol"],
  };
}

function ports(devices: Instance["devices"]) {
  const published: Record<string, { HostIp: string; HostPort: string }[]> = {};
  for (const [name, device] of Object.entries(devices)) {
    const port = name.startsWith(PORT_DEVICE) ? portOf(device) : undefined;
    if (!port) continue;
    const binding = { HostIp: port.hostIP, HostPort: String(port.host) };
    (published[`${port.container}/${port.protocol}`] ??= []).push(binding);
  }
  return published;
}

/** Addresses by the network's name, in the order of the interfaces. */
function addresses({ devices, state }: Instance) {
  return Object.fromEntries(
    Object.entries(state?.network ?? {}).filter(([name]) => name !== "lo").sort()
      .map(([name, { addresses }]) => {
        const of = (family: string) =>
          addresses.find((one) => one.family === family && one.scope === "global")?.address ?? "";
        const network = devices[name]?.network ?? name;
        return [network, { IPAddress: of("inet"), GlobalIPv6Address: of("inet6") }];
      }),
  );
}

export function inspected(found: Instance, known: Known): Inspected {
  const { name, devices, config, status_code, last_used_at, state } = found;
  const running = isRunning(found);
  const began = !last_used_at.startsWith("1970-") && !last_used_at.startsWith("0001-");
  const { health } = known;
  const ended = began && !running;
  return {
    Id: name,
    Name: name,
    RestartCount: known.restarts,
    State: {
      Status: running ? "running" : began ? "exited" : "created",
      Running: running,
      Paused: status_code === FROZEN,
      Restarting: known.waiting && !running,
      OOMKilled: false,
      Pid: state?.pid ?? 0,
      ExitCode: ended ? known.exitCode : 0,
      Error: "",
      StartedAt: began ? last_used_at : "",
      FinishedAt: ended ? known.finishedAt : "",
      ...(health && running && {
        Health: {
          Status: health.state,
          FailingStreak: health.failures,
          Log: health.last
            ? [{
              End: health.last.time,
              ExitCode: health.last.exitCode ?? -1,
              Output: health.last.output,
            }]
            : [],
        },
      }),
    },
    Config: { Labels: labelsOf(config), Tty: true },
    HostConfig: {
      NetworkMode: "",
      RestartPolicy: { Name: policyOf(config[RESTART]) },
      Mounts: Object.entries(devices).filter(([device]) => device.startsWith(MOUNT_DEVICE))
        .map(([, { source, readonly }]) => ({
          Type: "bind",
          Source: source,
          ReadOnly: readonly === "true",
        })),
    },
    NetworkSettings: {
      ...(running && { Ports: ports(devices), Networks: addresses(found) }),
    },
  };
}
