/**
 * `GET /.svc/v1/session`: a deployment that lives as long as its caller. A WebSocket carries yamux; the caller
 * is its client, and opens stream 1 alone: lines of JSON both ways.
 *
 * The caller's first line is a {@linkcode SessionRequest}. Back come {@linkcode SessionEvent}s: `session` with
 * the secret that a lost connection is resumed with, then `progress` and `result`, or `error`, which ends it.
 * `exited` tells that no instance runs any more, `gone` that somebody else removed the deployment, which ends
 * the session too. The line `{"type":"end"}` ends it: the deployment is removed, then `ended` comes.
 *
 * A connection that is lost leaves the deployment for `graceMs`. Who resumes the session within that time is
 * told what it is at: `session` again, then `result`, `exited`, or how it ended.
 */
import type { ApplyResult, DeploymentStatus } from "./deployment.ts";
import type { HostCertificate } from "./ingress_certificates.ts";
import type { Problem } from "./problem.ts";

export const SESSION_PATH = "/session";

/** Of this protocol; the server refuses others. */
export const SESSION_VERSION = 1;

export type SessionRequest =
  /** `certificates` are for backends with the ability `ingressCertificates`. */
  | { type: "open"; version: number; spec: unknown; certificates?: HostCertificate[] }
  /** YAML or JSON; `source` is its name in errors. */
  | { type: "open"; version: number; text: string; source?: string }
  | { type: "resume"; version: number; name: string; token: string };

/** What the caller may say later. */
export interface SessionEnd {
  type: "end";
}

export type SessionEvent =
  | {
    type: "session";
    name: string;
    /** Resumes the session: whoever has it may end the deployment. */
    token: string;
    /** Milliseconds that the deployment outlives a lost connection. */
    graceMs: number;
  }
  | { type: "progress"; message: string }
  | { type: "result"; result: ApplyResult }
  | { type: "exited"; deployment: DeploymentStatus }
  | { type: "gone" }
  | { type: "ended" }
  | { type: "error"; error: Problem };
