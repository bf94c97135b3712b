/** The flight record: who did what to which name, from where, with which result. */

/** GET `/.svc/v1/activity`: NDJSON, oldest first; the query parameters are `follow tail since`. */
export interface ActivityEntry {
  /** RFC 3339: when it ended, or the first of several alike did. */
  time: string;
  /** Identity; empty where none was accepted. */
  subject: string;
  /** How it was proved: `token`, `jwt`, `mtls`, `ssh-key`, `anonymous`; absent without authentication. */
  method?: string;
  /** Address of the peer, without its port. */
  remote: string;
  /** The route's action, or `auth` for what concerns credentials. */
  action: string;
  /** Method and path of the route: `PUT /.svc/v1/deployments/{name}`. */
  operation: string;
  /** `app:v1`, `app@sha256:…`, a deployment, a key's fingerprint. */
  name?: string;
  result: "ok" | "denied" | "failed";
  status: number;
  /** Of the error catalogue, where the server knows it. */
  code?: string;
  /** Bytes of the answer's body that were sent. */
  bytes: number;
  /** Bytes of the request's body that were read; absent: none. */
  received?: number;
  durationMs: number;
  /** More than one of them, alike and about the same time: bytes and durations are their sums. */
  count?: number;
  /** Id of the request, as in the server's log; of the first of several. */
  request: string;
}
