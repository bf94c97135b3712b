/** Times and states in docker's words. */
import type { InstanceStatus } from "../../api/deployment.ts";
import type { Container } from "../../compose/state.ts";

/** "5 seconds", "About an hour", "3 weeks". */
export function humanDuration(ms: number): string {
  const seconds = Math.floor(Math.max(0, ms) / 1000);
  if (seconds < 1) return "Less than a second";
  if (seconds === 1) return "1 second";
  if (seconds < 60) return `${seconds} seconds`;
  const minutes = Math.floor(seconds / 60);
  if (minutes === 1) return "About a minute";
  if (minutes < 60) return `${minutes} minutes`;
  const hours = Math.round(seconds / 3600);
  if (hours === 1) return "About an hour";
  if (hours < 48) return `${hours} hours`;
  const days = Math.floor(hours / 24);
  if (hours < 24 * 14) return `${days} days`;
  if (hours < 24 * 60) return `${Math.floor(days / 7)} weeks`;
  if (hours < 24 * 365 * 2) return `${Math.floor(days / 30)} months`;
  return `${Math.floor(days / 365)} years`;
}

export const ago = (time: string, now = Date.now()) =>
  `${humanDuration(now - Date.parse(time))} ago`;

/** created, running, paused, restarting or exited. */
export function stateOf({ instance, state: { status } }: Container): string {
  switch (instance.state) {
    case "created":
    case "paused":
      return instance.state;
    case "exited":
    case "failed":
      return status.state === "pending" ? "restarting" : "exited";
    default:
      return "running";
  }
}

export const healthOf = ({ health }: InstanceStatus) => health?.state ?? "";

/** "Up 5 minutes (healthy)", "Exited (0) 3 seconds ago". */
export function statusText(container: Container): string {
  const { instance } = container;
  const since = (time: string | undefined) => humanDuration(Date.now() - Date.parse(time ?? ""));
  const state = stateOf(container);
  if (state === "created") return "Created";
  if (state === "restarting") {
    return `Restarting (${instance.exitCode ?? 0}) ${since(instance.finishedAt)} ago`;
  }
  if (state === "exited") {
    return `Exited (${instance.exitCode ?? 0}) ${since(instance.finishedAt)} ago`;
  }
  const health = healthOf(instance);
  const how = state === "paused"
    ? " (Paused)"
    : health === "starting"
    ? " (health: starting)"
    : health
    ? ` (${health})`
    : "";
  return `Up ${since(instance.startedAt)}${how}`;
}

function sized(bytes: number, base: number, units: readonly string[], digits: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= base && unit < units.length - 1) {
    value /= base;
    unit++;
  }
  return `${Number(value.toPrecision(digits))}${units[unit]}`;
}

/** "1.98MB": powers of ten, as docker has it of images and traffic. */
export const decimalSize = (bytes: number, digits = 3) =>
  sized(bytes, 1000, ["B", "kB", "MB", "GB", "TB", "PB"], digits);

/** "23.54GiB": powers of two, as docker has it of memory. */
export const binarySize = (bytes: number) =>
  sized(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 4);
