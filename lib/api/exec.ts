/**
 * Frames of `GET /.svc/v1/deployments/{name}/exec`: a WebSocket of binary messages, the first byte of each
 * the channel. Every command and flag travels in the query, so that authorization and the activity
 * record see it before the connection is upgraded.
 *
 * The client sends stdin and `{"eof":true}`, and waits while much of stdin is not acknowledged, since a
 * WebSocket does not make its sender wait. The server sends `{"started":true}`, then `{"ack":bytes}`, stdout,
 * stderr, and as its last message either `{"exit":n}` or `{"error":Problem}`; an error in the place of
 * `started` is of a command that never ran. A socket that closes without one of these is a failure. A
 * client that goes away ends the command.
 *
 * On a terminal everything is stdout, end of input is typed (Ctrl-D), and `{"resize":{columns,rows}}` of the
 * client says that the window changed.
 */
import { SvcError } from "../base/errors.ts";
import type { TerminalSize } from "../base/terminal.ts";
import type { Problem } from "./problem.ts";

export const EXEC_CHANNEL = { stdin: 0, stdout: 1, stderr: 2, control: 3 } as const;

/** `ack` is how many bytes of stdin the command has taken since the last one. */
export type ExecControl =
  | { started: true }
  | { exit: number }
  | { eof: true }
  | { ack: number }
  | { resize: TerminalSize }
  | { error: Problem };

export type ExecFrame =
  | { channel: "stdin" | "stdout" | "stderr"; data: Uint8Array<ArrayBuffer> }
  | { channel: "control"; control: ExecControl };

/** What to run, as the query says it. */
export interface ExecQuery {
  /** Empty, and with a terminal: a shell, the first there is of the workload's own, `shells`, and the usual. */
  command: string[];
  /** Command strings, best first. */
  shells?: string[];
  /** "K=V". */
  env?: string[];
  user?: string;
  workingDir?: string;
  instance?: string;
  tty?: boolean;
  /** Of the terminal at the start. */
  size?: TerminalSize;
  /** Without it the command's standard input is at its end from the start. */
  stdin?: boolean;
}

/** One binary message. */
export function encodeExecFrame(frame: ExecFrame): Uint8Array<ArrayBuffer> {
  const data = frame.channel === "control"
    ? new TextEncoder().encode(JSON.stringify(frame.control))
    : frame.data;
  const message = new Uint8Array(1 + data.length);
  message[0] = EXEC_CHANNEL[frame.channel];
  message.set(data, 1);
  return message;
}

/** Throws `argument_invalid` for a message that is none of ours. `data` shares the message's memory. */
export function decodeExecFrame(message: Uint8Array<ArrayBuffer>): ExecFrame {
  const data = message.subarray(1);
  for (const channel of ["stdin", "stdout", "stderr"] as const) {
    if (message[0] === EXEC_CHANNEL[channel]) return { channel, data };
  }
  if (message[0] === EXEC_CHANNEL.control) {
    try {
      return { channel: "control", control: JSON.parse(new TextDecoder().decode(data)) };
    } catch (cause) {
      throw new SvcError("argument_invalid", "Cannot read exec frame: its control is not JSON", {
        cause,
      });
    }
  }
  throw new SvcError(
    "argument_invalid",
    `Cannot read exec frame: channel ${message[0] ?? "(empty message)"} is unknown`,
  );
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
  if (query.size) {
    params.set("columns", String(query.size.columns));
    params.set("rows", String(query.size.rows));
  }
  if (query.stdin) params.set("stdin", "1");
  return params;
}

/** What the other side calls a terminal's size. Throws `argument_invalid` where it is none. */
export function readTerminalSize(columns: unknown, rows: unknown): TerminalSize {
  for (const count of [columns, rows]) {
    if (Number.isInteger(count) && Number(count) >= 1 && Number(count) <= 0xffff) continue;
    throw new SvcError(
      "argument_invalid",
      `Cannot exec: a terminal's columns and rows are 1..65535, not ${JSON.stringify(count)}`,
    );
  }
  return { columns: Number(columns), rows: Number(rows) };
}

function sizeIn(params: URLSearchParams): TerminalSize | undefined {
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
  };
}
