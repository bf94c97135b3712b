/** {@linkcode Runtime} over the runc command line, which crun, youki and runsc share. */
import { basename } from "node:path";
import { SvcError, tellsFullDisk } from "../base/errors.ts";
import { run, type RunResult } from "../base/process.ts";
import type { Runtime, RuntimeState, RuntimeStatus } from "./runtime.ts";

export interface RuntimeOptions {
  /** A name on PATH or a path. */
  binary: string;
  /** `--root`, on a file system that a reboot empties. */
  root: string;
  systemdCgroup?: boolean;
  signal?: AbortSignal;
}

/** Debian's package of each runtime that has one. */
const PACKAGES: Record<string, string> = { runc: "runc", crun: "crun" };

function missing(binary: string, why: string, cause?: unknown): SvcError {
  const known = PACKAGES[basename(binary)];
  return new SvcError("prerequisite_missing", `Cannot use OCI runtime ${binary}: ${why}`, {
    cause,
    help: known
      ? `install the package ${known} (apt-get install ${known})`
      : "install it, or set SVC_RUNTIME to runc or crun",
  });
}

/**
 * The first line of `--version`. Throws `prerequisite_missing`, naming the package, where the binary is missing
 * or does not answer like a runtime.
 */
export async function runtimeVersion(binary: string, signal?: AbortSignal): Promise<string> {
  let result: RunResult;
  try {
    result = await run(binary, ["--version"], { signal });
  } catch (error) {
    if (error instanceof SvcError && error.code === "prerequisite_missing") {
      throw missing(binary, "it is not installed", error);
    }
    if (error instanceof Deno.errors.PermissionDenied) {
      throw missing(binary, "it is not executable", error);
    }
    throw error;
  }
  const first = result.stdout.trim().split("\n")[0];
  if (result.code !== 0 || !/\d+\.\d+/.test(first)) {
    throw missing(binary, `\`${binary} --version\` exited with ${result.code}`);
  }
  return first;
}

interface StateJson {
  id: string;
  pid: number;
  status: string;
  bundle: string;
}

const STATUSES: readonly string[] = ["created", "running", "paused", "stopped"];

function toState(json: StateJson): RuntimeState {
  return {
    id: json.id,
    pid: json.pid,
    status: (STATUSES.includes(json.status) ? json.status : "created") as RuntimeStatus,
    bundle: json.bundle,
  };
}

/** Validates the binary by {@linkcode runtimeVersion}, then drives it. */
export async function createRuntime(options: RuntimeOptions): Promise<Runtime> {
  const version = await runtimeVersion(options.binary, options.signal);
  const globals = ["--root", options.root];
  if (options.systemdCgroup) globals.push("--systemd-cgroup");
  const call = (...args: string[]) => run(options.binary, [...globals, ...args]);

  const list = async (): Promise<RuntimeState[]> => {
    const result = await call("list", "--format", "json");
    if (result.code !== 0) throw failed("list containers", result);
    return ((JSON.parse(result.stdout.trim() || "null") ?? []) as StateJson[]).map(toState);
  };
  /** Runtimes word "no such container" differently, so the list of containers decides. */
  const gone = async (id: string) => !(await list()).some((state) => state.id === id);
  const failed = (attempted: string, result: RunResult) => {
    const words = lastWords(result);
    return new SvcError(
      tellsFullDisk(words) ? "storage_full" : "internal",
      `Cannot ${attempted}: ${options.binary} exited with ${result.code}: ${words}`,
      { help: tellsFullDisk(words) ? "free space on this host" : "see the runtime's message" },
    );
  };

  return {
    binary: options.binary,
    version,
    root: options.root,
    list,
    async state(id) {
      const result = await call("state", id);
      if (result.code === 0) return toState(JSON.parse(result.stdout));
      if (await gone(id)) return undefined;
      throw failed(`read the state of container ${id}`, result);
    },
    async start(id, signal) {
      const result = await run(options.binary, [...globals, "start", id], { signal });
      if (result.code !== 0) throw failed(`start container ${id}`, result);
    },
    async kill(id, signal, { all } = {}) {
      const result = await call("kill", ...(all ? ["--all"] : []), id, String(signal));
      if (result.code === 0 || await gone(id)) return;
      const state = await call("state", id);
      if (state.code === 0 && JSON.parse(state.stdout).status === "stopped") return;
      throw failed(`send ${signal} to container ${id}`, result);
    },
    async freeze(id, frozen) {
      const result = await call(frozen ? "pause" : "resume", id);
      if (result.code === 0) return;
      // It fails where there is nothing to do.
      const state = await call("state", id);
      const is = state.code === 0 ? JSON.parse(state.stdout).status : undefined;
      if (is === (frozen ? "paused" : "running")) return;
      throw failed(`${frozen ? "pause" : "resume"} container ${id}`, result);
    },
    async update(id, bounds) {
      const stdin = JSON.stringify(bounds);
      const command = [...globals, "update", "--resources", "-", id];
      const result = await run(options.binary, command, { stdin });
      if (result.code === 0) return;
      throw new SvcError(
        "conflict",
        `Cannot change the bounds of container ${id}: ${lastWords(result)}`,
        { help: "see the runtime's message" },
      );
    },
    async delete(id, { force } = {}) {
      const result = await call("delete", ...(force ? ["--force"] : []), id);
      if (result.code === 0 || await gone(id)) return;
      throw failed(`delete container ${id}`, result);
    },
    command: (...args) => [options.binary, [...globals, ...args]],
  };
}

/** The last lines of a runtime's message, without its log prefix. */
function lastWords(result: RunResult): string {
  const text = (result.stderr.trim() || result.stdout.trim()).split("\n").slice(-3).join("\n");
  return /level=error msg="(.*)"$/.exec(text)?.[1].replaceAll('\\"', '"') ?? text;
}
