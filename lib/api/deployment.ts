/** Deployments in the management API (DESIGN.md section 6, "Lifecycle"). */
import type { ExposedPort, OriginSpec } from "./deploy_spec.ts";
import type { IngressEndpoint } from "./ingress.ts";
import type { Problem } from "./problem.ts";

export type DeploymentState =
  | "pending"
  | "pulling"
  | "creating"
  | "running"
  | "stopping"
  | "stopped"
  | "deleting"
  | "failed";

/** `paused`: its processes are frozen. */
export type InstanceState =
  | "created"
  | "running"
  | "healthy"
  | "unhealthy"
  | "paused"
  | "exited"
  | "failed";

/** What an instance's health check found. */
export interface InstanceHealth {
  /** starting: no probe has succeeded, and not enough have failed. */
  state: "starting" | "healthy" | "unhealthy";
  /** Failures in a row that count. */
  failures: number;
  /** The probe that ended last; absent: none has. */
  last?: HealthProbe;
}

export interface HealthProbe {
  /** RFC 3339; when it ended. */
  time: string;
  /** Absent: it did not end in time, or could not be run. */
  exitCode?: number;
  /** The end of its output, or why it has no exit code. */
  output: string;
}

export interface InstanceStatus {
  /** "<deployment>-<replica>", unique on the host. */
  id: string;
  state: InstanceState;
  exitCode?: number;
  /** Process id on the host, while running. */
  pid?: number;
  restarts: number;
  startedAt?: string;
  finishedAt?: string;
  /** Address on the deployment's network. */
  ip?: string;
  /** Why it is not running, where known. */
  message?: string;
  /** Absent: there is no health check, or the instance does not run. */
  health?: InstanceHealth;
  /** Whether its companion is attached to the server. Absent: it has none. */
  companion?: "attached" | "away";
}

export interface PublishedPort {
  hostIP: string;
  host: number;
  container: number;
  protocol: "tcp" | "udp" | "sctp";
}

export interface DeploymentStatus {
  name: string;
  state: DeploymentState;
  image: string;
  /** Digest of the manifest that is running. */
  imageDigest?: string;
  ports: PublishedPort[];
  /** Declared ports that are not published; absent: none. */
  exposed?: ExposedPort[];
  /** Hosts and paths that lead here; absent: none. */
  ingress?: IngressEndpoint[];
  instances: InstanceStatus[];
  /** The labels of the spec; absent: none. */
  labels?: Record<string, string>;
  /** Origin of the last deploy, and who did it; absent: not given. */
  origin?: OriginSpec;
  createdAt: string;
  updatedAt: string;
  /** Spec fields that this backend does not honour, as "path: reason". */
  warnings: string[];
  /** The last error of an apply or of supervision. */
  error?: string;
}

/**
 * How far an apply goes before it answers. "ready", the default: every instance runs, and is healthy where it has
 * a health check; else the deployment stays, or becomes again, what it was. "started": every instance was
 * started, whatever becomes of it then; nothing is taken back. "created": the instances are made and wait for a
 * start, which the deployment's `stopped` tells.
 */
export const APPLY_UNTIL = ["ready", "started", "created"] as const;
export type ApplyUntil = typeof APPLY_UNTIL[number];

/** The result of an apply. */
export type ApplyAction = "created" | "replaced" | "unchanged";

export interface ApplyResult {
  action: ApplyAction;
  deployment: DeploymentStatus;
}

/** Events of an apply: lines for a person, then the outcome. */
export type ApplyEvent =
  | { type: "progress"; message: string }
  | { type: "result"; result: ApplyResult }
  | { type: "error"; error: Problem };

/** A change of an instance's state. */
export type InstanceChange =
  /** `oom` precedes the `died` that it caused. */
  | { type: "created" | "started" | "healthy" | "unhealthy" | "oom" | "removed" }
  /** The main process has ended, for whatever reason; a restart by the policy is the next `started`. */
  | { type: "died"; exitCode: number }
  /**
   * Follows `died` where a requested stop, start or restart ended the instance; it stays stopped until the next
   * such request.
   */
  | { type: "stopped" };

export type InstanceEvent = InstanceChange & {
  /** RFC 3339. */
  time: string;
  deployment: string;
  /** As in the status: "<deployment>-<replica>". A replacement has the same id. */
  instance: string;
  /** The engine's own id of the container or pod; never reused. */
  container: string;
};

export interface LogFrame {
  /** RFC 3339 with nanoseconds. */
  time: string;
  instance: string;
  stream: "stdout" | "stderr";
  /** One line without its newline, as text; bytes that are not UTF-8 become U+FFFD. */
  line: string;
  /** The line's bytes in base64; present where they are not UTF-8. */
  base64?: string;
  /** True: no newline follows. The output ended here, or the next frame of the stream continues the line. */
  partial?: true;
}
