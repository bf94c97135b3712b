/**
 * `GET /.svc/v1/session`: a deployment that lives as long as its caller. An attached session
 * (lib/wire/attached/session.ts), on which the caller opens one stream, `deploy`: lines of JSON both ways.
 *
 * The caller's first line is a {@linkcode SessionRequest}. Back come {@linkcode SessionEvent}s: `session` with
 * the token that resumes it, then `progress` and `result`, or `error`, which ends it. `exited` tells that all
 * instances have ended, `gone` that somebody else removed the deployment, which ends the session too. The line
 * `{"type":"end"}` ends it: the deployment is removed, then `ended` comes.
 *
 * After a connection is lost the deployment stays for `graceMs`. Within that time the session can be resumed:
 * the hello of the next connection names it and has its token, and the caller opens the stream again. It is
 * told how things are: `session`, then `result`, `exited`, or how it ended. Only whoever opened the session may
 * resume it: the same identity, with the token.
 */
import type { Logins } from "./build_logins.ts";
import type { CallerMount } from "./caller_mounts.ts";
import type { DeliveredFile } from "./delivered_files.ts";
import type { ApplyResult, ApplyUntil, DeploymentStatus } from "./deployment.ts";
import type { HostCertificate } from "./ingress_certificates.ts";
import type { Problem } from "./problem.ts";

export const SESSION_PATH = "/session";

interface Open {
  type: "open";
  /** The caller's, for the registry of the spec's image. */
  logins?: Logins;
  /** Of the caller's own files: the server opens the stream `mount` for them. */
  mounts?: CallerMount[];
  files?: DeliveredFile[];
  /** How far the apply goes before `result`; absent: "ready". */
  until?: ApplyUntil;
}

export type SessionRequest =
  /** `certificates` are for backends with the ability `ingressCertificates`. */
  | Open & { spec: unknown; certificates?: HostCertificate[] }
  /** YAML or JSON; `source` is its name in errors. */
  | Open & { text: string; source?: string }
  /** The first line on a later connection of the session. */
  | { type: "resume" };

/** A later line of the caller. */
export interface SessionEnd {
  type: "end";
}

export type SessionEvent =
  | {
    type: "session";
    name: string;
    /** Resumes the session. Whoever has the token can end the deployment. */
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
