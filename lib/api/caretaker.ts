/**
 * `GET /.svc/v1/caretaker/attach`: an attached session (lib/wire/attached/session.ts) between a server and the
 * caretaker beside one instance. The credential is the instance's own token; `instance` in the query has to be the
 * one that the token is for.
 *
 * - `caretaker`, opened by the caretaker: one line, {@linkcode CaretakerReport}, once its roles have started or one
 *   of them could not.
 * - `dial`, opened by the server with {@linkcode DialFields}: the caretaker answers with the line
 *   {@linkcode Opened}, then the bytes of the connection follow (UDP: datagrams as in lib/wire/datagrams.ts).
 * - `agent`, opened by the server: the caretaker makes a socket in the workload and answers with
 *   {@linkcode AgentSocketLine}. The end of the stream is the end of the socket.
 * - `mount`, opened by the caretaker with the session's `id`: 9P of its caller on a lasting stream.
 * - `ssh`, opened by the caretaker with {@linkcode AgentFields}, for each connection to such a socket: the SSH
 *   agent's protocol, until either side ends.
 */
import type { Problem } from "./problem.ts";

/** In a companion: the folder of the caller's mounts, which its instance shares. */
export const COMPANION_MOUNTS = "/run/svc/mounts";
/** Below it: the session's own folder. */
export const COMPANION_SESSION = "session";

/** How the roles of a caretaker do. */
export type CaretakerReport =
  | { ready: { version: string; roles: readonly string[] } }
  | { failed: { role: string; error: Problem } };

export interface DialFields {
  port: number;
  protocol: "tcp" | "udp";
}

export type Opened = { ok: true } | { ok: false; error: Problem };

export type AgentSocketLine =
  | { ok: true; /** Absolute, in the workload. */ path: string; /** For `ssh`. */ socket: string }
  | { ok: false; error: Problem };

export interface AgentFields {
  /** Which of the caretaker's sockets somebody connected to. */
  socket: string;
}
