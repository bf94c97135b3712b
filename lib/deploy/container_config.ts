/** A container's process: the image's config overridden by the spec, by docker's rules. */
import { posix } from "node:path";
import { SvcError } from "../base/errors.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";
import { parseDuration } from "../base/duration.ts";
import { signalNumber, SIGTERM } from "../base/signals.ts";
import type { ContainerConfig } from "../oci/types.ts";
import type { AttachedMount, Attachments } from "./backend.ts";

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
  /** As written in the image or spec: names are resolved against the root. */
  user: string;
  /** The signal's number. */
  stopSignal: string;
  /** Milliseconds. */
  stopGrace: number;
  health?: HealthPlan;
  /** Folders that the image declares as volumes; absent in records of older versions. */
  volumes?: string[];
  /** Folders and files of the server that svc adds; absent: none. */
  mounts?: readonly AttachedMount[];
}

/** Later lists win by name; names keep the order of their first appearance. */
function mergeEnv(...lists: string[][]): string[] {
  const merged = new Map<string, string>();
  for (const entry of lists.flat()) merged.set(entry.split("=", 1)[0], entry);
  return [...merged.values()];
}

/** Images state nanoseconds, and 0 for the default. */
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

/** A warning for each request of the image that cannot be fulfilled. */
export function imageWarnings(spec: DeploySpec, { StopSignal }: ContainerConfig): string[] {
  if (spec.stopSignal || !StopSignal || signalNumber(StopSignal) !== undefined) return [];
  return [`stopSignal: the image's ${JSON.stringify(StopSignal)} is not a signal; SIGTERM is sent`];
}

const stopSignal = (spec: DeploySpec, { StopSignal }: ContainerConfig) =>
  String(signalNumber(spec.stopSignal || StopSignal || "") ?? SIGTERM);

/** Engines write these into files of lines, some of which are their own configuration. */
const LINE = /^\P{Cc}*$/u;

/** A spec's own words are checked where it is read; an image may hold anything. */
function requireLines(image: string, { args, env, workingDir, user }: ContainerPlan): void {
  const refuse = (what: string) => {
    throw new SvcError("spec_invalid", `Cannot run ${image}: ${what} holds control characters`, {
      help: "build the image anew without them, or override it in the spec",
    });
  };
  if (!LINE.test(workingDir)) refuse("its working directory");
  if (!LINE.test(user)) refuse("its user");
  if (args.some((word) => word.includes("\0"))) refuse("its command");
  for (const entry of env) {
    const [name] = entry.split("=", 1);
    if (!LINE.test(name) || entry.includes("\0")) {
      refuse(`its environment variable ${JSON.stringify(name)}`);
    }
  }
}

/**
 * `added` is what svc adds. Its environment overrides the image's, and the spec's overrides both. Throws
 * `spec_invalid` where neither the image nor the spec names a command, and where the image's words hold control
 * characters that would reach an engine's configuration.
 */
export function containerPlan(
  spec: DeploySpec,
  image: ContainerConfig,
  { env: added = {}, mounts = [] }: Pick<Attachments, "env" | "mounts"> = {},
): ContainerPlan {
  const entrypoint = spec.entrypoint ?? image.Entrypoint ?? [];
  // An entrypoint in the spec discards the image's command.
  const command = spec.command ?? (spec.entrypoint ? [] : image.Cmd ?? []);
  const args = [...entrypoint, ...command];
  if (args.length === 0) {
    throw new SvcError("spec_invalid", `Cannot run ${spec.image}: it names no command`, {
      help: "set command or entrypoint in the spec, or CMD in the Dockerfile",
    });
  }
  const lines = (env: Readonly<Record<string, string>>) =>
    Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const terminal = spec.tty ? ["TERM=xterm"] : [];
  const plan: ContainerPlan = {
    args,
    env: mergeEnv([DEFAULT_PATH, ...terminal], image.Env ?? [], lines(added), lines(spec.env)),
    workingDir: spec.workingDir ?? (image.WorkingDir || "/"),
    user: spec.user ?? image.User ?? "",
    stopSignal: stopSignal(spec, image),
    stopGrace: spec.stopGracePeriod === undefined ? 10_000 : parseDuration(spec.stopGracePeriod),
    health: healthPlan(spec, image),
    volumes: Object.keys(image.Volumes ?? {}).map((path) => posix.resolve("/", path))
      .filter((path) => path !== "/"),
    ...(mounts.length > 0 && { mounts }),
  };
  requireLines(spec.image, plan);
  return plan;
}
