/** The only privileged part of the build engine: runs one command in one root file system. */

import type { DeviceAccess } from "../runtime/cdi.ts";
import type { NetworkMode } from "../runtime/spec.ts";

export interface BindMount {
  source: string;
  /** Absolute path inside the root. */
  target: string;
  readOnly: boolean;
}

export interface Step {
  /** Unique among running steps; made of `[a-z0-9-]`. */
  id: string;
  /** Mounted root file system. */
  rootfs: string;
  args: string[];
  env: string[];
  workingDir: string;
  /** "uid[:gid]" or names of the root's own passwd and group; empty is root. */
  user: string;
  mounts: BindMount[];
  /** Targets of tmpfs mounts, with sizes in bytes where bounded. */
  tmpfs: { target: string; size?: number }[];
  network: NetworkMode;
  /** The step may do all that the server may: no seccomp filter, all devices, all capabilities. */
  insecure?: boolean;
  hostname?: string;
  /** Device nodes, groups and hooks for RUN --device; the devices' mounts are in `mounts`. */
  devices?: Pick<DeviceAccess, "nodes" | "hooks" | "gids">;
  /** Most processes and threads at once; absent: as many as the host allows. */
  processes?: number;
}

export interface Executor {
  /**
   * Runs to the end. Output goes to `onOutput` as it comes; an aborted signal kills every process of the
   * step and throws. A command that cannot be started has exit code 126 or 127, as a shell has it.
   */
  run(
    step: Step,
    options: {
      onOutput: (stream: "stdout" | "stderr", chunk: Uint8Array) => void;
      signal?: AbortSignal;
    },
  ): Promise<{ exitCode: number }>;
  /** Kills and removes the containers that a crashed server left. */
  recover(): Promise<void>;
}
