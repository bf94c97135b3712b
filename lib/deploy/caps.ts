/**
 * The abilities of a deploy backend. A missing ability is an absent member, never a method that throws: the
 * members decide `/info`, the 501 answers and the contract suite's skips. For every ability: a missing
 * deployment or instance is `not_found`, an instance that has to run and does not is `conflict`. An absent
 * `instance` means the first running one. `signal` ends the work, and a stream ends when its reader stops.
 */
import type { ImageSource } from "../oci/image.ts";
import type { ImageToLoad } from "../oci/resolver.ts";
import type {
  FileChange,
  FileStat,
  InstanceStats,
  InstanceUpdate,
  NetworkStatus,
  ProcessList,
  VolumeStatus,
} from "../api/workload.ts";
import type { EgressMode } from "../api/egress.ts";
import type { Duplex } from "../wire/duplex.ts";
import type { EngineWriter } from "../store/engine_writer.ts";
import type { TerminalSize } from "../base/terminal.ts";

export type {
  FileChange,
  FileStat,
  InstanceStats,
  InstanceUpdate,
  NetworkStatus,
  ProcessList,
  VolumeStatus,
};

export interface CallOptions {
  signal?: AbortSignal;
}

export interface InstanceOptions extends CallOptions {
  /** Id ("web-0") or number of the replica. */
  instance?: string;
}

/** A socket in a workload that leads to somebody's SSH agent. */
export interface ForwardedAgent extends AsyncDisposable {
  /** Absolute, in the workload: for SSH_AUTH_SOCK. */
  path: string;
}

/** Connects to the agent of whoever runs the command. Throws where there is none. */
export type AgentConnect = () => Promise<Duplex>;

/** What a backend's ability `agent` is asked for. */
export interface AgentOptions extends InstanceOptions {
  connect: AgentConnect;
}

export interface ExecRequest {
  command: string[];
  env?: Record<string, string>;
  user?: string;
  workingDir?: string;
  instance?: string;
  tty?: boolean;
  /** The terminal's size; absent: 80 columns, 24 rows. */
  size?: TerminalSize;
}

export interface ExecSession {
  stdin: WritableStream<Uint8Array>;
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
  /** The command's exit code; 126 and 127 as in a shell. */
  exit: Promise<number>;
  kill(signal: string): Promise<void>;
  /** The command could not start: `exit` is 126 or 127, and `stderr` tells why. */
  refused?: true;
  /** Only with a terminal. Then `stdout` carries all output, and the end of `stdin` is not passed on. */
  resize?(size: TerminalSize): void;
}

/** The streams of an instance's main process. */
export interface AttachSession {
  /**
   * Only for a spec with `stdinOpen`. Its end is the end of the process's input, except on a terminal; where the
   * engine cannot end it for one who is attached, closing throws `unsupported`.
   */
  stdin?: WritableStream<Uint8Array>;
  /** Output from the attach on. On a terminal it carries all output, and `stderr` none. */
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
  /** The process's exit code; undefined: the session was detached first. */
  exit: Promise<number | undefined>;
  /** Detaches; the process keeps running. Idempotent. */
  detach(): void;
  /** Only for a spec with `tty`, where the engine tells a terminal its size. */
  resize?(size: TerminalSize): void;
}

/** Paths are absolute in the container. No link in the container makes them lead outside it. */
export interface FileAbility {
  /** Missing: undefined. A link itself is described, not its target. */
  stat(name: string, path: string, options?: InstanceOptions): Promise<FileStat | undefined>;
  /**
   * A tar of the file, or of the folder with its contents, under the path's last part; owners are numbers.
   * Missing: `not_found`.
   */
  read(
    name: string,
    path: string,
    options?: InstanceOptions,
  ): Promise<{ stat: FileStat; tar: ReadableStream<Uint8Array> }>;
  /**
   * Unpacks an archive into a folder, with the archive's owners; existing files are replaced. Missing:
   * `not_found`.
   */
  write(
    name: string,
    path: string,
    tar: ReadableStream<Uint8Array>,
    options?: InstanceOptions,
  ): Promise<void>;
  /** What the workload has changed in its image's files, a folder before what is in it; nothing of its mounts. */
  changes?(name: string, options?: InstanceOptions): Promise<FileChange[]>;
  /** A tar of its root, without what is mounted in it. */
  export?(name: string, options?: InstanceOptions): Promise<ReadableStream<Uint8Array>>;
}

/** Volumes or networks that svc made for deployments. Others are neither listed nor removed. */
export interface ManagedAbility<Status> {
  list(options?: CallOptions): Promise<Status[]>;
  /** Undefined where it is missing or was not made by svc. */
  inspect(name: string, options?: CallOptions): Promise<Status | undefined>;
  /** False where it is missing or was not made by svc. In use: `conflict`, which names the users. */
  remove(name: string, options?: CallOptions): Promise<boolean>;
}

/** Relays beside workloads: the engine tells their namespaces, and walls them in. */
export interface EgressAbility {
  readonly modes: readonly EgressMode[];
  /**
   * For the route `cluster`; absent: there is no such way. A TCP connection as a workload on the default network makes it, with what the host's rules let such a
   * workload reach. `address`: IPv4. Throws `upstream_failed`, `timeout`.
   */
  dialOut?(address: string, port: number, signal: AbortSignal): Promise<Duplex>;
}

export interface DeployCaps {
  /** Runs a command beside the main process. */
  exec?(name: string, request: ExecRequest, options?: CallOptions): Promise<ExecSession>;
  /**
   * Makes a socket in the instance that leads to somebody's SSH agent. Present where each instance has a companion.
   */
  agent?(name: string, options: AgentOptions): Promise<ForwardedAgent & { instance: string }>;
  /**
   * Attaches to the main process. Several sessions may be attached, and each gets all output. Before the
   * instance's start the call waits.
   */
  attach?(name: string, options?: InstanceOptions): Promise<AttachSession>;
  files?: FileAbility;
  /**
   * A sample for each running instance, or for the named one. With `everyMs`: repeated until none runs or the
   * signal aborts; else once.
   */
  stats?(
    name: string,
    options?: InstanceOptions & { everyMs?: number },
  ): AsyncIterable<InstanceStats>;
  /**
   * Sends a signal to the main process of every running instance, or of the named one. By name or number:
   * "HUP", "SIGHUP", "1".
   */
  signal?(name: string, signal: string, options?: InstanceOptions): Promise<void>;
  /** Freezes and thaws all processes of a deployment's instances. Both are idempotent. */
  pause?: {
    pause(name: string, options?: InstanceOptions): Promise<void>;
    unpause(name: string, options?: InstanceOptions): Promise<void>;
  };
  /**
   * Changes every instance, or the named one, running or not, without making it anew. It holds until an apply
   * replaces the instance; the deployment's spec stays. Bounds that the engine refuses: `conflict`, and nothing
   * has changed. What this engine cannot change: `unsupported`.
   */
  update?(name: string, update: InstanceUpdate, options?: InstanceOptions): Promise<void>;
  /** The processes of every running instance, or of the named one. */
  top?(name: string, options?: InstanceOptions): Promise<ProcessList[]>;
  volumes?: ManagedAbility<VolumeStatus>;
  networks?: ManagedAbility<NetworkStatus>;
  /** The engine's own image store, for a registry view of it. Without `writer` it is read-only. */
  images?: {
    reader: ImageSource;
    /** Names as the engine's own commands show them, without tags; in byte order. */
    repositories(options?: CallOptions): AsyncIterable<string>;
    /** Throws the reason why the store cannot be read now. */
    ready?(options?: CallOptions): Promise<void>;
    writer?: EngineWriter;
  };
  /**
   * Puts an image into the engine without a registry in between; parts that the engine already has are not
   * read. Idempotent.
   */
  load?(image: ImageToLoad, options?: CallOptions): Promise<void>;
  /**
   * Removes unpacked images that no deployment uses and that only this backend keeps; `dryRun`: counts them.
   * Throws where the engine is away.
   */
  pruneImages?(
    options?: CallOptions & { dryRun?: boolean },
  ): Promise<{ bytes: number; items: number }>;
  /** `apply` accepts `mounts`: the engine sees the server's folders. */
  mounts?: true;
  /** Why the callers' own files cannot be mounted although `mounts` is there, and what to do. */
  noCallerMounts?: { why: string; help: string };
  /** `apply` accepts `egress`. */
  egress?: EgressAbility;
  /** The engine tells `BackendParts.namespaces` of each instance: `apply` accepts `beside`. */
  namespaces?: true;
  /** `apply` accepts `secretEnv`: the engine keeps no variable that it gives to a process. */
  secretEnv?: true;
  /** `apply` accepts `companion`. */
  companion?: true;
  /** `apply` accepts `companion.mounts`: companions mount the callers' own files. */
  companionMounts?: true;
  /** The variable by which each instance gets a companion: told where something needs one. */
  companionVariable?: string;
  /**
   * The ingress is the cluster's: `apply` accepts `certificates` and keeps them with the deployment as managed
   * Secrets. It replaces changed certificates and removes those that are no longer given.
   */
  ingressCertificates?: true;
}
