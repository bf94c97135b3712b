/**
 * A deploy backend: turns a DeploySpec into running instances. Constructed on first use. Members of
 * `caps` may be absent: presence drives `/info`, the 501s and the contract suite's skips
 * (`test/contract/deploy_backend.ts`).
 */
import type { ApplyResult, DeploymentStatus, LogFrame } from "../api/deployment.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { HostCertificate } from "../api/ingress_certificates.ts";
import type { TerminalSize } from "../base/terminal.ts";
import type { Duplex } from "../wire/duplex.ts";

export interface LogOptions {
  follow?: boolean;
  /** Last lines per instance; absent: all. */
  tail?: number;
  since?: Date;
  until?: Date;
  instance?: string;
  signal?: AbortSignal;
}

export interface ApplyProgress {
  /** One line for a person: "pulling app:v1", "waiting until healthy". */
  (message: string): void;
}

export interface ExecRequest {
  command: string[];
  env?: Record<string, string>;
  user?: string;
  workingDir?: string;
  instance?: string;
  tty?: boolean;
  /** Of the terminal; absent: 80 columns, 24 rows. */
  size?: TerminalSize;
}

export interface ExecSession {
  stdin: WritableStream<Uint8Array>;
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
  /** The command's exit code; 126 and 127 as a shell has them. */
  exit: Promise<number>;
  kill(signal: string): Promise<void>;
  /** The command cannot run there: `exit` is 126 or 127, and `stderr` says why. */
  refused?: true;
  /** Only on a terminal, where `stdout` has everything and the end of `stdin` is not told. */
  resize?(size: TerminalSize): void;
}

export interface DeployCaps {
  exec?(
    name: string,
    request: ExecRequest,
    options?: { signal?: AbortSignal },
  ): Promise<ExecSession>;
  /**
   * The ingress is the cluster's: `apply` takes `certificates` and keeps them with the deployment as managed
   * Secrets, replaces those that changed and removes those that are no longer given.
   */
  ingressCertificates?: true;
}

export interface DeployBackend extends AsyncDisposable {
  readonly name: string;
  readonly caps: DeployCaps;
  /** Throws what stands in the way of any deployment; absent: nothing can. Cheap once it has passed. */
  ready?(): Promise<void>;
  /**
   * Makes it so; resolves when every instance runs (and is healthy where a healthcheck is set).
   * Idempotent: an unchanged spec and image change nothing. A replacement that does not come up leaves
   * the old instances running and throws `deploy_failed` with the last 20 log lines.
   */
  apply(
    spec: DeploySpec,
    options?: {
      onProgress?: ApplyProgress;
      signal?: AbortSignal;
      /** False: the image may be none of this server's. */
      mayPull?: boolean;
      /** Only where the ability `ingressCertificates` is there. */
      certificates?: readonly HostCertificate[];
    },
  ): Promise<ApplyResult>;
  /** Missing: undefined. */
  status(name: string): Promise<DeploymentStatus | undefined>;
  list(): Promise<DeploymentStatus[]>;
  /** What the deployments there are were last applied with, the oldest first. */
  specs(): Promise<DeploySpec[]>;
  /** Stops gracefully, then removes. Missing: false. Named volumes stay. */
  delete(name: string, options?: { signal?: AbortSignal }): Promise<boolean>;
  /** Throws `not_found`. Idempotent: starting a running deployment does nothing. */
  power(
    name: string,
    action: "start" | "stop" | "restart",
    options?: { signal?: AbortSignal },
  ): Promise<DeploymentStatus>;
  /** Frames in order of time per instance; throws `not_found` before the first. */
  logs(name: string, options?: LogOptions): AsyncIterable<LogFrame>;
  /**
   * A connection to a port inside the deployment's first running instance; the caller resets it. Of UDP each
   * `read` and `write` is one datagram, an ended direction leaves the other one open, and what nobody reads
   * is dropped. Throws `not_found`, `conflict` where no instance runs, `upstream_failed` where nothing listens.
   */
  dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    options?: { signal?: AbortSignal },
  ): Promise<Duplex>;
  /**
   * Leaves workloads running and lets go of them: a later server on the same data finds them again.
   */
  [Symbol.asyncDispose](): Promise<void>;
}
