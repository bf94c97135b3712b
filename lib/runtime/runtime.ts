/**
 * An OCI runtime driven through its command line (runc, crun, youki, runsc). Shared by the builder's
 * RUN executor and the bare backend. Interface only; `createRuntime` is in runc.ts, the generator of
 * config.json in spec.ts.
 */
import type { Bounds } from "./spec.ts";

export type RuntimeStatus = "created" | "running" | "paused" | "stopped";

export interface RuntimeState {
  id: string;
  pid: number;
  status: RuntimeStatus;
  bundle: string;
}

export interface Runtime {
  /** The binary's path, and the first line of `--version`. */
  readonly binary: string;
  readonly version: string;
  /** `--root`: where the runtime keeps its state. */
  readonly root: string;
  /** Missing: undefined. */
  state(id: string): Promise<RuntimeState | undefined>;
  start(id: string, signal?: AbortSignal): Promise<void>;
  /** A missing container is fine. */
  kill(id: string, signal: string | number, options?: { all?: boolean }): Promise<void>;
  /** Freezes or thaws all processes; each idempotent. */
  freeze(id: string, frozen: boolean): Promise<void>;
  /** Changes the bounds of a running container. Throws `conflict` where the kernel or the runtime refuses them. */
  update(id: string, bounds: Bounds): Promise<void>;
  /** `force` kills first. Missing is fine. */
  delete(id: string, options?: { force?: boolean }): Promise<void>;
  list(): Promise<RuntimeState[]>;
  /** The argument vector of any other call: `[binary, "--root", root, …args]`. */
  command(...args: string[]): [string, string[]];
}
