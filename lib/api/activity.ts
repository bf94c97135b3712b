/** The flight record: who did what to which name, from where, with which result. */

/** GET `/.svc/v1/activity`: NDJSON, oldest first; the query parameters are `follow tail since`. */
export interface ActivityEntry {
  /** RFC 3339: the time at which the request ended; of several alike requests, the first one's. */
  time: string;
  /** The caller's identity; empty where no credential was accepted. */
  subject: string;
  /**
   * How the identity was proved: `token`, `jwt`, `mtls`, `ssh-key`, `anonymous`; absent without authentication.
   */
  method?: string;
  /** Address of the peer, without its port. */
  remote: string;
  /** The route's action, or `auth` for requests that concern credentials. */
  action: string;
  /** Method and path of the route: `PUT /.svc/v1/deployments/{name}`. */
  operation: string;
  /** `app:v1`, `app@sha256:…`, a deployment, a key's fingerprint. */
  name?: string;
  result: "ok" | "denied" | "failed";
  status: number;
  /** A code of the error catalogue, where the server knows it. */
  code?: string;
  /** Bytes of the answer's body that were sent. */
  bytes: number;
  /** Bytes of the request's body that were read; absent: none. */
  received?: number;
  durationMs: number;
  /**
   * Number of alike requests at about the same time that this entry stands for; bytes and durations are their
   * sums.
   */
  count?: number;
  /** Id of the request, as in the server's log; of several requests, the first one's. */
  request: string;
}
