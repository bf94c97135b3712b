/**
 * Routes are data: dispatch, authorization, the reference page and log names read the same rows
 * (DESIGN.md rule 5).
 */
import type { Logger } from "../base/log.ts";
import type { BlobBody } from "../oci/image.ts";

/** Who asks. Without authentication configured: the anonymous identity, which may do everything. */
export interface Identity {
  subject: string;
  scopes: readonly string[];
  /** How it was verified: an `AuthMethod`, or "anonymous"; absent without authentication. */
  method?: string;
  /** Fingerprint of the SSH key that it was proved with. */
  key?: string;
}

/** What a client certificate says, where one was asked for and presented. */
export interface ClientCertificate {
  /** Of a certificate that verifies. */
  commonName?: string;
  /** Milliseconds since 1970 until which it does. */
  until?: number;
  /** Why it does not verify. */
  refused?: string;
}

/** What the listener knows of a connection. */
export interface Connection {
  /** "host:port" of the peer. */
  remote: string;
  /** Only of connections with TLS and a client certificate. */
  readonly certificate?: ClientCertificate;
  /** Serves a blob body in the way this listener is fastest at; HEAD and ranges are the caller's. */
  blob(body: BlobBody, init: { status: number; headers: Headers }): Response;
  /** Upgrades to a WebSocket; the response must be returned. */
  upgrade(request: Request): { socket: WebSocket; response: Response };
}

export interface Context {
  request: Request;
  url: URL;
  /** Parameters of the path, decoded. */
  params: Record<string, string>;
  /** A route that is itself a way to prove who asks sets it. */
  identity: Identity;
  connection: Connection;
  /** Code of the error that the client was told: an answer that began well may still end with one. */
  outcome?: string;
  /** The answer has no end of its own: a client that goes away has ended it, and cancelled nothing. */
  untilGone?: boolean;
  /** What it is about, where neither path nor query says so: for the flight record. */
  about?: string;
  /** Carries the request's id. */
  log: Logger;
  /** Aborts when the client goes away. */
  signal: AbortSignal;
}

/** What a policy grants. */
export type Action =
  | "build"
  | "deploy"
  | "exec"
  | "logs"
  | "read"
  | "push"
  | "pull"
  | "gc"
  | "admin";

interface Row {
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /**
   * `/a/{param}/b`. `{name+}` takes several segments (repository names). HEAD is served by GET unless
   * it has a row of its own.
   */
  path: string;
  /** Scope the credential must have once authentication is configured. */
  scope?: string;
  /** One sentence for the reference page. */
  help: string;
  handler: (context: Context) => Promise<Response> | Response;
}

/** Needs no credential, whatever is configured. */
interface OpenRow extends Row {
  open: true;
  action?: undefined;
}

interface GuardedRow extends Row {
  open?: undefined;
  /** Action that a policy must grant; "any": to whoever it grants something, whatever that is. */
  action: Action | "any";
}

export type Route = OpenRow | GuardedRow;
