/**
 * The seam of the host engine: who makes, runs and ends containers on this host. Networks, files, names,
 * health, restarts and replacement are the host engine's; an implementation knows keys and OCI documents, and
 * nothing of deployments. They are `backends/deploy/bare` (an OCI runtime and conmon) and
 * `backends/deploy/containerd` (a daemon).
 *
 * A container has a `key`, unique on the host and never used again. Its life: `roots.mount`, `create`,
 * `start`, its end; then `delete` and the same again in the same root, or `delete`, `roots.remove` and
 * `logs.remove` for good. Calls for one key come one after the other, but for `exec`, `signal` and
 * `logs.read`. A container goes on while no server runs, and none of its output is lost meanwhile.
 */
import type { RestartPolicy } from "../../api/deploy_spec.ts";
import type { LogFrame } from "../../api/deployment.ts";
import type { InstanceStats } from "../../api/workload.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Bounds, ProcessSpec } from "../../runtime/spec.ts";
import type { DiffSource } from "../../snapshot/diff_tree.ts";
import type { ExecSession } from "../backend.ts";
import type { ReadLogOptions } from "./log_file.ts";
import type { LogPlace, OutputOptions } from "./output_file.ts";

/** A process with its start time: its pid alone may have been given to another process. Kept in records. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot, as /proc/PID/stat has it. */
  startTime: string;
  bootId: string;
}

export interface ContainerExit {
  /** 128 plus the signal's number after a signal; 255 where the code is unknown. */
  code: number;
  at: Date;
  /** The container exceeded its memory limit. */
  oom?: boolean;
}

/** `created`: waits for `start`. `ended`: `exit` is absent where the code is unknown. */
export type ContainerState =
  | { is: "created" }
  | { is: "running"; process: ProcessIdentity }
  | { is: "ended"; exit?: ContainerExit };

export interface NewContainer {
  key: string;
  /**
   * Absolute folder of its own with `config.json`, the OCI runtime document. The engine may keep files of its
   * own there; the host engine removes the folder after `delete`. What the document's mounts name is there
   * until `create` has resolved; for an engine that has `supervise`, until `delete`.
   */
  bundle: string;
  tty?: boolean;
  /** The process's input stays open for attached sessions; otherwise it is empty. */
  stdinOpen?: boolean;
  /** The image's complete name, for engines whose own tools list containers. */
  image: string;
  /** For the same: whose container it is. `ofSpec` is what a caller wrote. */
  labels: { deployment: string; replica: number; ofSpec?: Readonly<Record<string, string>> };
}

/** What an engine has to know to start a container again by itself. */
export interface EngineRestart {
  policy: Exclude<RestartPolicy, "no">;
  /** The limit of the policy `on-failure`; absent: no limit. */
  maxAttempts?: number;
  /** The container's process has a terminal. */
  tty?: boolean;
}

/** The writable trees of containers, made from images. */
export interface ContainerRoots {
  /**
   * Has the image's tree here, pulled and unpacked; the name is for `mount`. Until the hold is disposed of, no
   * clean-up takes the tree. Idempotent.
   */
  unpack(
    image: ResolvedImage,
    options?: { signal?: AbortSignal },
  ): Promise<Disposable & { name: string }>;
  /**
   * Mounts the container's tree where the host can read it, and returns the path, which stays the same;
   * at first made from the `image` of that name, later with what the container wrote. Idempotent. Throws
   * where there is no tree yet and no image is named.
   */
  mount(key: string, image?: string): Promise<string>;
  /** Where what the container wrote lies, and the trees below. */
  source(key: string): Promise<DiffSource>;
  /** Unmounts the tree and removes it with all that was written. Idempotent; missing is fine. */
  remove(key: string): Promise<void>;
}

/** Ends of containers. */
export interface ContainerExits {
  /**
   * Calls back once, when that process of the container has ended, also where that was before the call. An
   * end is told within a few seconds even where the container's monitor was killed.
   */
  watch(
    key: string,
    process: ProcessIdentity,
    onExit: (exit: ContainerExit) => void,
  ): Promise<void>;
  /** Ends the watch: no callback comes after this. Idempotent. */
  unwatch(key: string): void;
}

/** What containers print. The engine collects it and bounds it, whether a server runs or not. */
export interface ContainerLogs {
  /** Frames, oldest first, of all runs of the container. No log yet: none. */
  read(key: string, instance: string, options?: ReadLogOptions): AsyncGenerator<LogFrame[]>;
  /** Where the log ends now. */
  end(key: string): Promise<LogPlace>;
  /** The bytes of one stream as they are printed. A slow reader delays nobody. */
  output(key: string, options: OutputOptions): AsyncGenerator<Uint8Array, void, void>;
  /** Idempotent; missing is fine. */
  remove(key: string): Promise<void>;
}

/** The input of a container's process, as one writer of several. */
export interface ContainerInput {
  /** Resolves when the bytes were taken. Throws `conflict` where the input has ended. */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the input for all writers; on a terminal only for this one. Idempotent. */
  end(): Promise<void>;
  /** Lets go of the input, which goes on. Idempotent. */
  close(): void;
}

export interface ExecOptions {
  /** Runs on a terminal of that size; absent: on pipes. */
  terminal?: TerminalSize;
  /** The command in words, for errors: "ls in web-0". */
  what: string;
  /** An abort kills the command. */
  signal?: AbortSignal;
}

/** Of one container. */
export type ContainerUsage = Pick<
  InstanceStats,
  "cpu" | "memory" | "memoryLimit" | "processes" | "blockRead" | "blockWritten"
>;

export interface ContainerEngine {
  readonly roots: ContainerRoots;
  readonly exits: ContainerExits;
  readonly logs: ContainerLogs;
  /** Throws `prerequisite_missing` naming what is missing. Cheap once it has passed. */
  ready(): Promise<void>;
  /** `linux.cgroupsPath` of the container's document. */
  cgroupPath(key: string): string;
  /**
   * Makes the container, whose process waits for `start`; its namespaces are there then. A container of that
   * key that is there must have been deleted before. Throws `deploy_failed` with the runtime's words, or
   * `timeout`; the caller deletes what is left.
   */
  create(container: NewContainer): Promise<ProcessIdentity>;
  /** Has the created container's process begin. Throws `timeout`; the container is deleted then. */
  start(key: string): Promise<void>;
  /**
   * Whether the engine starts the container again after an end while no server runs; undefined: never. It holds
   * until the container is deleted. Missing is fine. Absent: the engine never does.
   */
  supervise?(key: string, restart: EngineRestart | undefined): Promise<void>;
  /** The input of a running container that was created with `stdinOpen`. Throws `conflict` where it has ended. */
  input(key: string, options: { tty: boolean }): Promise<ContainerInput>;
  /** Changes the size of a running container's terminal. Gone or missing is fine. */
  resize(key: string, size: TerminalSize): Promise<void>;
  /** Freezes all processes of a running container, or lets them go on. Both are idempotent. */
  freeze(key: string, frozen: boolean): Promise<void>;
  /**
   * Changes the bounds of a running container, and of what the engine itself starts of it again. Throws `conflict`
   * where they are refused; then nothing has changed.
   */
  update(key: string, bounds: Bounds): Promise<void>;
  /** What a running container uses, as the engine counts it; absent: as its cgroup does. */
  usage?(key: string): Promise<ContainerUsage>;
  /** Sends process 1 the signal of that number; `all`: every process. Gone or missing is fine. */
  signal(key: string, signal: number, options?: { all?: boolean }): Promise<void>;
  /**
   * Kills what is left of the container and removes it; root and logs stay. When it resolves nothing of it
   * runs, and no exit of it will be told. Idempotent; missing is fine.
   */
  delete(key: string): Promise<void>;
  /**
   * The container's state now. `known`: its process as last seen. Undefined: there is no container, and nothing
   * is known of an earlier one.
   */
  state(key: string, known?: ProcessIdentity): Promise<ContainerState | undefined>;
  /**
   * Runs a command beside process 1 of a running container. The caller closes `stdin`. Where the command does
   * not begin, throws `timeout` or rejects `exit` with it.
   */
  exec(key: string, process: ProcessSpec, options: ExecOptions): Promise<ExecSession>;
  /** Stops watching: containers keep running. */
  close(): void;
}
