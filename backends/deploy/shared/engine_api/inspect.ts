/** What the engine says of a container, and what that means for a status. */
import type {
  DeploymentState,
  InstanceHealth,
  InstanceStatus,
  PublishedPort,
} from "../../../../lib/api/deployment.ts";
import { type EngineRecord, instanceId, type InstanceRecord } from "./record.ts";

interface AttachedNetwork {
  NetworkID?: string;
  IPAddress: string;
  GlobalIPv6Address?: string;
  MacAddress?: string;
}

/** How many times, and when, the engine starts a container again. */
export interface RestartPolicy {
  Name: string;
  MaximumRetryCount?: number;
}

/** The used part of the answer to `/containers/ID/json`. */
export interface Inspected {
  Id: string;
  Name: string;
  RestartCount: number;
  State: {
    Status: string;
    Running: boolean;
    Paused: boolean;
    Restarting: boolean;
    OOMKilled: boolean;
    Pid: number;
    ExitCode: number;
    Error: string;
    StartedAt: string;
    FinishedAt: string;
    Health?: {
      Status: string;
      FailingStreak?: number;
      Log?: { End?: string; ExitCode: number; Output: string }[] | null;
    };
  };
  Config: { Labels?: Record<string, string> | null; Tty: boolean; StopTimeout?: number };
  HostConfig: {
    NetworkMode: string;
    RestartPolicy?: RestartPolicy;
    LogConfig?: { Type: string };
    /** As they were asked for. Podman does not tell them. */
    Mounts?: { Type: string; Source?: string; ReadOnly?: boolean }[] | null;
    ReadonlyRootfs?: boolean;
  };
  Mounts?: { Type: string; Source?: string; Destination?: string; RW?: boolean }[] | null;
  NetworkSettings: {
    Ports?: Record<string, { HostIp: string; HostPort: string }[] | null> | null;
    Networks?: Record<string, AttachedNetwork> | null;
  };
}

/** The engine's word for a time that never was. */
const isTime = (time: string) => time !== "" && !time.startsWith("0001-");

/** The container's main process runs. While it is to be restarted, engines say "running" too. */
export const runs = ({ State }: Inspected) => State.Running && !State.Restarting;

/** Running or about to run again. */
export const isActive = ({ State }: Inspected) => State.Running || State.Restarting;

/** Healthy, where there is a health check. */
export function isReady({ State }: Inspected): boolean {
  const health = State.Health?.Status ?? "none";
  return health === "none" || health === "healthy";
}

export function addressOf({ NetworkSettings }: Inspected): string | undefined {
  const networks = Object.values(NetworkSettings.Networks ?? {});
  return networks.map(({ IPAddress, GlobalIPv6Address }) => IPAddress || GlobalIPv6Address)
    .find((address) => address);
}

/** How the last probe of the health check failed. */
export function lastProbe({ State }: Inspected): string {
  const last = State.Health?.Log?.at(-1);
  if (!last) return "did not succeed";
  const output = last.Output.trim();
  return `exited with code ${last.ExitCode}${output ? `: ${output}` : ""}`;
}

function stateOf(found: Inspected): InstanceStatus["state"] {
  const { State } = found;
  if (runs(found)) {
    if (State.Paused) return "paused";
    const health = State.Health?.Status;
    return health === "healthy" || health === "unhealthy" ? health : "running";
  }
  if (State.Status === "created") return "created";
  return State.Status === "dead" ? "failed" : "exited";
}

/** Exit code of a probe that did not end in time, or could not be run. */
const NO_CODE = -1;

function healthOf({ State: { Health } }: Inspected): InstanceHealth | undefined {
  const state = Health?.Status;
  if (state !== "starting" && state !== "healthy" && state !== "unhealthy") return undefined;
  const last = Health?.Log?.at(-1);
  return {
    state,
    failures: Health?.FailingStreak ?? 0,
    ...(last && {
      last: {
        time: last.End ?? "",
        ...(last.ExitCode !== NO_CODE && { exitCode: last.ExitCode }),
        output: last.Output,
      },
    }),
  };
}

/** The status of one instance; `found` undefined: somebody else removed its container. */
export function instanceStatus(
  deployment: string,
  { replica, key }: InstanceRecord,
  found: Inspected | undefined,
): InstanceStatus {
  const id = instanceId(deployment, replica);
  if (!found) {
    return {
      id,
      state: "failed",
      restarts: 0,
      message: `its container ${key} was removed, and not by svc; deploy again`,
    };
  }
  const { State, RestartCount } = found;
  const state = stateOf(found);
  const ended = state === "exited" || state === "failed";
  const ip = addressOf(found);
  const health = runs(found) ? healthOf(found) : undefined;
  const message = state === "unhealthy" ? `its last health check ${lastProbe(found)}` : [
    State.OOMKilled && ended && "it used more memory than it may",
    State.Error,
    State.Restarting && "it is about to be restarted",
  ].filter(Boolean).join("; ");
  return {
    id,
    state,
    restarts: RestartCount,
    ...(ended && { exitCode: State.ExitCode }),
    ...(runs(found) && State.Pid > 0 && { pid: State.Pid }),
    ...(isTime(State.StartedAt) && { startedAt: State.StartedAt }),
    ...(ended && isTime(State.FinishedAt) && { finishedAt: State.FinishedAt }),
    ...(ip && { ip }),
    ...(message && { message }),
    ...(health && { health }),
  };
}

export function deploymentState(
  record: EngineRecord,
  found: readonly (Inspected | undefined)[],
): DeploymentState {
  if (record.deleting) return "deleting";
  if (record.stopped) return "stopped";
  const there = found.filter((one) => one !== undefined);
  if (there.some(runs)) return "running";
  if (there.some(isActive)) return "pending";
  const ended = there.length === found.length && there.every(({ State }) => State.ExitCode === 0);
  return ended ? "stopped" : "failed";
}

/** The host ports that lead to a container that runs. */
export function publishedPorts({ NetworkSettings }: Inspected): PublishedPort[] {
  return Object.entries(NetworkSettings.Ports ?? {}).flatMap(([name, bindings]) => {
    const [container, protocol] = name.split("/");
    const list = bindings ?? [];
    // Of a port of every address the engine tells the one of IPv6 too.
    return list.filter(({ HostIp, HostPort }) =>
      HostIp !== "::" || !list.some((one) => one.HostIp === "0.0.0.0" && one.HostPort === HostPort)
    ).map(({ HostIp, HostPort }) => ({
      hostIP: HostIp || "0.0.0.0",
      host: Number(HostPort),
      container: Number(container),
      protocol: protocol as PublishedPort["protocol"],
    }));
  });
}
