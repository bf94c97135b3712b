/**
 * Frames of `GET /.svc/v1/deployments/{name}/exec`: a WebSocket of binary messages, the first byte of each
 * the channel. Every command and flag travels in the query, so that authorization and the activity
 * record see it before the connection is upgraded.
 *
 * The client sends stdin and `{"eof":true}`, and waits while much of stdin is not acknowledged, since a
 * WebSocket does not make its sender wait. The server sends `{"ack":bytes}`, stdout, stderr, and as its
 * last message either `{"exit":n}` or `{"error":Problem}`. A socket that closes without one of these is a failure. A
 * client that goes away ends the command.
 */
import { SvcError } from "../base/errors.ts";
import type { Problem } from "./problem.ts";

export const EXEC_CHANNEL = { stdin: 0, stdout: 1, stderr: 2, control: 3 } as const;

/** `ack` is how many bytes of stdin the command has taken since the last one. */
export type ExecControl = { exit: number } | { eof: true } | { ack: number } | { error: Problem };

export type ExecFrame =
  | { channel: "stdin" | "stdout" | "stderr"; data: Uint8Array<ArrayBuffer> }
  | { channel: "control"; control: ExecControl };

/** What to run, as the query says it. */
export interface ExecQuery {
  command: string[];
  /** "K=V". */
  env?: string[];
  user?: string;
  workingDir?: string;
  instance?: string;
  tty?: boolean;
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
  for (const pair of query.env ?? []) params.append("env", pair);
  if (query.user !== undefined) params.set("user", query.user);
  if (query.workingDir !== undefined) params.set("workdir", query.workingDir);
  if (query.instance !== undefined) params.set("instance", query.instance);
  if (query.tty) params.set("tty", "1");
  if (query.stdin) params.set("stdin", "1");
  return params;
}

/** Throws `argument_invalid` where there is no command. */
export function decodeExecQuery(params: URLSearchParams): ExecQuery {
  const command = params.getAll("command");
  if (command.length === 0) {
    throw new SvcError("argument_invalid", "Cannot exec: the query has no command");
  }
  return {
    command,
    env: params.getAll("env"),
    user: params.get("user") ?? undefined,
    workingDir: params.get("workdir") ?? undefined,
    instance: params.get("instance") ?? undefined,
    tty: params.get("tty") === "1",
    stdin: params.get("stdin") === "1",
  };
}
