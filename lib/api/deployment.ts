/** What the management API says of deployments (DESIGN.md section 6, "Lifecycle"). */
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

export type InstanceState = "created" | "running" | "healthy" | "unhealthy" | "exited" | "failed";

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
  /** Digest of the manifest that runs. */
  imageDigest?: string;
  ports: PublishedPort[];
  /** Declared and not published; absent: none. */
  exposed?: ExposedPort[];
  /** Hosts and paths that lead here; absent: none. */
  ingress?: IngressEndpoint[];
  instances: InstanceStatus[];
  /** Where it was last deployed from, and by whom; absent: nobody said. */
  origin?: OriginSpec;
  createdAt: string;
  updatedAt: string;
  /** Spec fields that this backend does not honour, as "path: reason". */
  warnings: string[];
  /** The last error of an apply or of supervision. */
  error?: string;
}

/** What an apply did. */
export type ApplyAction = "created" | "replaced" | "unchanged";

export interface ApplyResult {
  action: ApplyAction;
  deployment: DeploymentStatus;
}

/** Events of an apply: lines for a person, then how it ended. */
export type ApplyEvent =
  | { type: "progress"; message: string }
  | { type: "result"; result: ApplyResult }
  | { type: "error"; error: Problem };

export interface LogFrame {
  /** RFC 3339 with nanoseconds. */
  time: string;
  instance: string;
  stream: "stdout" | "stderr";
  /** One line without its newline, as text: what is no UTF-8 stands as U+FFFD. */
  line: string;
  /** The bytes of the line, in base64: there where they are no UTF-8. */
  base64?: string;
  /** No newline follows: the output ended here, or the line goes on in the next frame of its stream. */
  partial?: true;
}
