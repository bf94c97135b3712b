/** What a container runs: the image's config with the spec on top, by docker's rules. */
import { posix } from "node:path";
import { SvcError } from "../base/errors.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";
import { parseDuration } from "../base/duration.ts";
import { signalNumber, SIGTERM } from "../base/signals.ts";
import type { ContainerConfig } from "../oci/types.ts";

const DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** A health check with every default filled in; times in milliseconds. */
export interface HealthPlan {
  /** Arguments of the command to run. */
  command: string[];
  interval: number;
  timeout: number;
  startPeriod: number;
  startInterval: number;
  retries: number;
}

export interface ContainerPlan {
  args: string[];
  env: string[];
  workingDir: string;
  /** As in the image or spec: names are resolved against the root. */
  user: string;
  /** Its number. */
  stopSignal: string;
  /** Milliseconds. */
  stopGrace: number;
  health?: HealthPlan;
  /** Folders that the image asks to have outside its own tree; absent in records of older versions. */
  volumes?: string[];
}

/** Later lists win by name; the order is that of first appearance. */
function mergeEnv(...lists: string[][]): string[] {
  const merged = new Map<string, string>();
  for (const entry of lists.flat()) merged.set(entry.split("=", 1)[0], entry);
  return [...merged.values()];
}

/** An image says nanoseconds, 0 for "default". */
const fromImage = (nanoseconds: number | undefined, otherwise: number) =>
  nanoseconds ? nanoseconds / 1e6 : otherwise;

function healthPlan(spec: DeploySpec, image: ContainerConfig): HealthPlan | undefined {
  const own = spec.healthcheck ?? {};
  const theirs = image.Healthcheck ?? {};
  const test = own.test ?? theirs.Test;
  if (!test || test.length === 0 || test[0] === "NONE") return undefined;
  const shell = image.Shell?.length ? image.Shell : ["/bin/sh", "-c"];
  const command = test[0] === "CMD-SHELL" ? [...shell, test.slice(1).join(" ")] : test.slice(1);
  const time = (text: string | undefined, nanoseconds: number | undefined, otherwise: number) =>
    text === undefined ? fromImage(nanoseconds, otherwise) : parseDuration(text);
  return {
    command,
    interval: time(own.interval, theirs.Interval, 30_000) || 30_000,
    timeout: time(own.timeout, theirs.Timeout, 30_000) || 30_000,
    startPeriod: time(own.startPeriod, theirs.StartPeriod, 0),
    startInterval: time(own.startInterval, theirs.StartInterval, 5_000) || 5_000,
    retries: own.retries || theirs.Retries || 3,
  };
}

/** What an image asks for that cannot be done, in words. */
export function imageWarnings(spec: DeploySpec, { StopSignal }: ContainerConfig): string[] {
  if (spec.stopSignal || !StopSignal || signalNumber(StopSignal) !== undefined) return [];
  return [`stopSignal: the image's ${JSON.stringify(StopSignal)} is no signal; SIGTERM is sent`];
}

const stopSignal = (spec: DeploySpec, { StopSignal }: ContainerConfig) =>
  String(signalNumber(spec.stopSignal || StopSignal || "") ?? SIGTERM);

/** Throws `spec_invalid` where neither the image nor the spec says what to run. */
export function containerPlan(spec: DeploySpec, image: ContainerConfig): ContainerPlan {
  const entrypoint = spec.entrypoint ?? image.Entrypoint ?? [];
  // An entrypoint of one's own makes the image's command meaningless.
  const command = spec.command ?? (spec.entrypoint ? [] : image.Cmd ?? []);
  const args = [...entrypoint, ...command];
  if (args.length === 0) {
    throw new SvcError("spec_invalid", `Cannot run ${spec.image}: it names no command`, {
      help: "set command or entrypoint in the spec, or CMD in the Dockerfile",
    });
  }
  const own = Object.entries(spec.env).map(([name, value]) => `${name}=${value}`);
  const terminal = spec.tty ? ["TERM=xterm"] : [];
  return {
    args,
    env: mergeEnv([DEFAULT_PATH, ...terminal], image.Env ?? [], own),
    workingDir: spec.workingDir ?? (image.WorkingDir || "/"),
    user: spec.user ?? image.User ?? "",
    stopSignal: stopSignal(spec, image),
    stopGrace: spec.stopGracePeriod === undefined ? 10_000 : parseDuration(spec.stopGracePeriod),
    health: healthPlan(spec, image),
    volumes: Object.keys(image.Volumes ?? {}).map((path) => posix.resolve("/", path))
      .filter((path) => path !== "/"),
  };
}
