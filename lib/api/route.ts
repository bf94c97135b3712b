/**
 * Routes are data: dispatch, authorization, the reference page and log names read the same rows
 * (DESIGN.md rule 5).
 */
import type { Logger } from "../base/log.ts";
import type { Endpoint } from "./endpoints.ts";
import type { BlobBody } from "../oci/image.ts";

/** The caller. Without configured authentication: the anonymous identity, which may do everything. */
export interface Identity {
  subject: string;
  scopes: readonly string[];
  /** How it was verified: an `AuthMethod`, or "anonymous"; absent without authentication. */
  method?: string;
  /** Fingerprint of the SSH key that proved the identity. */
  key?: string;
}

/** The client certificate, if the server asked for one and the client sent one. */
export interface ClientCertificate {
  /** Common name of a valid certificate. */
  commonName?: string;
  /** Time until which the certificate is valid, in milliseconds since 1970. */
  until?: number;
  /** Why the certificate is not valid. */
  refused?: string;
}

/** A connection as the listener sees it. */
export interface Connection {
  /** "host:port" of the peer. */
  remote: string;
  /** Present on TLS connections with a client certificate. */
  readonly certificate?: ClientCertificate;
  /** Serves a blob in the listener's fastest way; the caller handles HEAD and ranges. */
  blob(body: BlobBody, init: { status: number; headers: Headers }): Response;
  /** Upgrades to a WebSocket; the response must be returned. */
  upgrade(request: Request): { socket: WebSocket; response: Response };
}

export interface Context {
  request: Request;
  url: URL;
  /** Parameters of the path, decoded. */
  params: Record<string, string>;
  /** Set by the route where the route itself authenticates the caller. */
  identity: Identity;
  connection: Connection;
  /** Code of the error that was sent to the client, also in the middle of an answer that began well. */
  outcome?: string;
  /** True for an answer without an end of its own: the client ends it by leaving, which is not a cancellation. */
  untilGone?: boolean;
  /** The name that the request is about, for the flight record; set where path and query do not have it. */
  about?: string;
  /** Logs with the request's id. */
  log: Logger;
  /** Aborts when the client goes away. */
  signal: AbortSignal;
}

/** The actions that a policy can grant. */
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

interface Row extends Endpoint {
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /**
   * `/a/{param}/b`. `{name+}` takes several segments (repository names). HEAD is served by GET unless
   * it has a row of its own.
   */
  path: string;
  /** Scope that the credential must have, if authentication is configured. */
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
  /** The action that the policy must grant; "any": any action is enough. */
  action: Action | "any";
}

export type Route = OpenRow | GuardedRow;
