/**
 * `GET /.svc/v1/deployments/{name}/exec`: a command in a running instance, on an attached session
 * (lib/wire/attached/session.ts). Command and flags travel in the query, so that authorization and the activity
 * record see them before the connection is upgraded.
 *
 * Once the command is started the server opens three streams. `stdio` carries standard input to the server and
 * standard output back, `stderr` standard error; the end of each direction is the end of what it carries.
 * `command` carries lines of JSON: {@linkcode ExecInput} from the client, and as the server's only line
 * {@linkcode ExecEnd}. Whatever goes wrong is the session's error; one that comes before the streams is of a
 * command that never ran. A session that ends without an exit code is a failure. A client that goes away ends
 * the command.
 *
 * On a terminal everything is standard output, and the end of input is typed (Ctrl-D).
 */
import { SvcError } from "../base/errors.ts";
import type { TerminalSize } from "../base/terminal.ts";

/** The window of the terminal has changed. */
export interface ExecInput {
  resize: TerminalSize;
}

/** The command has ended, and all of its output was sent. */
export interface ExecEnd {
  exit: number;
}

/** What to run, as the query says it. */
export interface ExecQuery {
  /**
   * Empty with a terminal: runs a shell, the first that exists of the workload's own, `shells`, and the usual
   * ones.
   */
  command: string[];
  /** Command strings, best first. */
  shells?: string[];
  /** "K=V". */
  env?: string[];
  user?: string;
  workingDir?: string;
  instance?: string;
  tty?: boolean;
  /** Size of the terminal at the start. */
  size?: TerminalSize;
  /** False: the command's standard input is at its end from the start. */
  stdin?: boolean;
  /** The command gets a socket that leads to the caller's SSH agent, which is the client's stream `ssh`. */
  agent?: boolean;
}

export function encodeExecQuery(query: ExecQuery): URLSearchParams {
  const params = new URLSearchParams();
  for (const word of query.command) params.append("command", word);
  for (const shell of query.shells ?? []) params.append("shell", shell);
  for (const pair of query.env ?? []) params.append("env", pair);
  if (query.user !== undefined) params.set("user", query.user);
  if (query.workingDir !== undefined) params.set("workdir", query.workingDir);
  if (query.instance !== undefined) params.set("instance", query.instance);
  if (query.tty) params.set("tty", "1");
  setSize(params, query.size);
  if (query.stdin) params.set("stdin", "1");
  if (query.agent) params.set("agent", "1");
  return params;
}

export function setSize(params: URLSearchParams, size: TerminalSize | undefined): void {
  if (!size) return;
  params.set("columns", String(size.columns));
  params.set("rows", String(size.rows));
}

/** Parses a terminal's size. Throws `argument_invalid` for an invalid one. */
export function readTerminalSize(columns: unknown, rows: unknown): TerminalSize {
  for (const count of [columns, rows]) {
    if (Number.isInteger(count) && Number(count) >= 1 && Number(count) <= 0xffff) continue;
    throw new SvcError(
      "argument_invalid",
      `Cannot use the terminal: its columns and rows are 1..65535, not ${JSON.stringify(count)}`,
    );
  }
  return { columns: Number(columns), rows: Number(rows) };
}

/** The size in a query; undefined where it has none. Throws `argument_invalid` for an invalid one. */
export function sizeIn(params: URLSearchParams): TerminalSize | undefined {
  const [columns, rows] = ["columns", "rows"].map((name) => params.get(name));
  if (columns === null && rows === null) return undefined;
  return readTerminalSize(Number(columns || NaN), Number(rows || NaN));
}

/** Throws `argument_invalid` where there is neither a command nor a terminal for a shell. */
export function decodeExecQuery(params: URLSearchParams): ExecQuery {
  const command = params.getAll("command");
  const shells = params.getAll("shell");
  const tty = params.get("tty") === "1";
  if (command.length === 0 && !tty) {
    throw new SvcError("argument_invalid", "Cannot exec: the query has no command", {
      help: "give command, or tty=1 for a shell",
    });
  }
  if (command.length > 0 && shells.length > 0) {
    throw new SvcError("argument_invalid", "Cannot exec: the query has both command and shell");
  }
  const size = sizeIn(params);
  return {
    command,
    ...(shells.length > 0 && { shells }),
    ...(size && { size }),
    env: params.getAll("env"),
    user: params.get("user") ?? undefined,
    workingDir: params.get("workdir") ?? undefined,
    instance: params.get("instance") ?? undefined,
    tty,
    stdin: params.get("stdin") === "1",
    ...(params.get("agent") === "1" && { agent: true }),
  };
}
