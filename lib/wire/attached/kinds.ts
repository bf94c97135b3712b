/**
 * What streams of attached sessions are for: each begins with the name of its kind.
 *
 * | kind | opened by | what travels: to the server; to the caller |
 * |---|---|---|
 * | `deploy` | caller | lines of JSON: a deploy session's request; its events (lib/api/session.ts) |
 * | `build` | caller | lines of JSON: a build's request; its events (lib/api/build_session.ts) |
 * | `list` | server | the listing of the export that is named; nothing |
 * | `changes` | server | the listing without unchanged parts; a line of the parts that the server knows |
 * | `files` | server | contents of files; lines of wanted ones |
 * | `9p` | server | 9P2000.L, whose server is the caller |
 * | `mount` | server, caretaker | 9P2000.L on a lasting stream (lib/wire/lasting/stream.ts), whose server is the caller |
 * | `tar` | server | the archive that is the build context; nothing |
 * | `secret` | server | whether there is such a secret, its bytes; nothing |
 * | `ssh` | server, caretaker | whether there is such an agent, and its protocol |
 * | `command` | server | lines of JSON: sizes of the terminal; the exit code (lib/api/exec.ts, attach.ts) |
 * | `stdio` | server | standard input; standard output |
 * | `stderr` | server | nothing; standard error |
 * | `credential` | server | the values of the one that is named, or a request's answer; nothing, or a request (lib/api/credentials.ts) |
 * | `port` | server | a connection to a port of a workload |
 * | `egress` | server | a connection that the caller dials (lib/egress/stream.ts) |
 * | `ingress` | caller | a connection to the ingress (HTTP/1.1) |
 * | `caretaker` | caretaker | lines of JSON: how its roles do; nothing (lib/api/caretaker.ts) |
 * | `dial` | server | whether the port beside the caretaker answers, and the connection |
 * | `agent` | server | where the caretaker has made a socket for an agent; nothing: its end ends the socket |
 */
interface Row {
  /**
   * True: the stream outlives its connection. Its opener opens it again on the session's next connection, and
   * both ends continue from what they know. Messages in transit are lost, and sent again.
   * Streams of other kinds end with the connection.
   */
  survives: boolean;
}

const ends = { survives: false } as const;

export const KINDS = {
  deploy: { survives: true },
  mount: { survives: true },
  ...{ build: ends, list: ends, changes: ends, files: ends, "9p": ends, tar: ends },
  ...{ secret: ends, ssh: ends, command: ends, stdio: ends, stderr: ends, port: ends },
  ...{ ingress: ends, egress: ends, caretaker: ends, dial: ends, agent: ends },
  credential: ends,
} as const satisfies Record<string, Row>;

export type Kind = keyof typeof KINDS;

/** Kinds whose streams outlive their connection. */
export type SurvivingKind = {
  [K in Kind]: (typeof KINDS)[K]["survives"] extends true ? K : never;
}[Kind];

export const isKind = (name: unknown): name is Kind =>
  typeof name === "string" && Object.hasOwn(KINDS, name);
