/**
 * A deploy backend: turns a DeploySpec into running instances. It is constructed on first use. Changes of one
 * deployment run one after the other. Abilities that not every engine has are in `caps` (caps.ts). The contract
 * suite is `test/contract/deploy_suite.ts`.
 */
import type {
  ApplyResult,
  ApplyUntil,
  DeploymentStatus,
  InstanceEvent,
  LogFrame,
} from "../api/deployment.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { HostCertificate } from "../api/ingress_certificates.ts";
import type { EgressMode, EgressRoute } from "../api/egress.ts";
import type { Login } from "../oci/resolver.ts";
import type { Duplex } from "../wire/duplex.ts";
import type { DeployCaps } from "./caps.ts";

export type { DeployCaps, ExecRequest, ExecSession } from "./caps.ts";

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

/** The parts that svc adds to a workload besides its spec. A backend never gets a part whose ability it lacks. */
export interface Attachments {
  /** Environment that overrides the image's and is overridden by the spec's. Changed values replace the instances. */
  env?: Readonly<Record<string, string>>;
  /** Only for a backend with the ability `mounts`. */
  mounts?: readonly AttachedMount[];
  /**
   * File of the server's, on a tmpfs: JSON of variables that the workload's process gets at each start, and that stand
   * nowhere else. Only for a backend with the ability `secretEnv`.
   */
  secretEnv?: string;
  /** Only for a backend with the ability `companion`. */
  companion?: CompanionPlan;
  /** Only for a backend with the ability `egress`, whose modes name this one. */
  egress?: { mode: EgressMode; routes: readonly EgressRoute[] };
  /** What the server runs in the instances' network namespaces, in words. Only with the ability `namespaces`. */
  beside?: string;
  /** Roles of a companion that do the same, where the engine lacks that ability: lib/deploy/services.ts chooses. */
  besideRoles?: Readonly<Record<string, unknown>>;
  /** Only for a backend with the ability `ingressCertificates`. */
  certificates?: readonly HostCertificate[];
}

/** A folder or file of the server's host. The server chose it, so the bind policy does not apply. */
export interface AttachedMount {
  /** Absolute, on the server's host. */
  source: string;
  /** Absolute, in the container. */
  target: string;
  readOnly?: boolean;
}

/** The caretaker that runs beside each instance, created and removed with it. */
export interface CompanionPlan {
  /** Settings by role, as `svc caretaker` reads them. A role that cannot start fails the apply, by name. */
  roles: Readonly<Record<string, unknown>>;
  /** Only with the ability `companionMounts`: `source` is below the companion's folder of mounts. */
  mounts?: readonly AttachedMount[];
}

export interface ApplyOptions {
  onProgress?: ApplyProgress;
  signal?: AbortSignal;
  /** False: the image must not come from this server's registry. */
  mayPull?: boolean;
  /** Absent: "ready". */
  until?: ApplyUntil;
  /** True: the instances are replaced even where nothing has changed. */
  recreate?: boolean;
  /** The caller's logins at registries, by host; for other hosts the server's own apply. */
  logins?: ReadonlyMap<string, Login>;
}

export interface DeployBackend extends AsyncDisposable {
  readonly name: string;
  readonly caps: DeployCaps;
  /** Throws the reason why no deployment is possible. Absent: nothing can be in the way. Cheap once it has passed. */
  ready?(): Promise<void>;
  /** The engine and where it is, for people: "Docker 28.2 at unix:///var/run/docker.sock". */
  about?(): Promise<string>;
  /**
   * Applies the spec; resolves when every instance runs (and is healthy where a healthcheck is set), or as
   * `until` says.
   * Idempotent: an unchanged spec and image change nothing. Where a replacement does not come up, the old
   * instances keep running, and `deploy_failed` is thrown with the last 20 log lines.
   */
  apply(
    spec: DeploySpec,
    attachments?: Attachments,
    options?: ApplyOptions,
  ): Promise<ApplyResult>;
  /** Missing: undefined. `pending` while a restart by the restart policy is due. */
  status(name: string): Promise<DeploymentStatus | undefined>;
  list(): Promise<DeploymentStatus[]>;
  /**
   * The spec that was last applied, without attachments. Undefined: there is no deployment, or no apply has
   * completed.
   */
  spec(name: string): Promise<DeploySpec | undefined>;
  /**
   * State changes of all instances as they happen, beginning with the call: a caller that calls `list`
   * afterwards misses nothing. A status read after an event reflects that event; an instance on trial has
   * events before a status lists it. Events of one instance come in order. The `removed` event of a
   * deployment's last instance comes when the deployment no longer exists. Any number of callers may watch, and
   * a slow reader delays nobody: when too many events wait for a reader, it gets the waiting events, then
   * `unavailable` is thrown. `unavailable` is also thrown where the engine is lost. The stream ends without an
   * error when the signal aborts or the backend closes.
   */
  events(signal: AbortSignal): AsyncIterable<InstanceEvent>;
  /** Stops gracefully, then removes. Missing: false. Named volumes stay. */
  delete(name: string, options?: { signal?: AbortSignal }): Promise<boolean>;
  /** Throws `not_found`. Idempotent: a start of a running deployment changes nothing. */
  power(
    name: string,
    action: "start" | "stop" | "restart",
    options?: { signal?: AbortSignal },
  ): Promise<DeploymentStatus>;
  /**
   * Frames in order of time per instance, those that came at once together (or none): each step of the way costs a
   * promise, which for single lines was most of a log's memory. Throws `not_found` before the first.
   */
  logs(name: string, options?: LogOptions): AsyncIterable<LogFrame[]>;
  /**
   * A connection to a port inside an instance of the deployment. The ready instances take turns; where none is
   * ready, the running ones do. The caller resets the connection. Over UDP, each `read` and `write` is one
   * datagram, an ended direction leaves the other open, and unread datagrams are dropped. Throws `not_found`,
   * `conflict` where no instance runs, `upstream_failed` where nothing listens.
   */
  dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    options?: { signal?: AbortSignal },
  ): Promise<Duplex>;
  /** Releases the workloads, which keep running: a later server on the same data finds them again. */
  [Symbol.asyncDispose](): Promise<void>;
}
