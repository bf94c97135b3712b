/**
 * `GET /.svc/v1/deployments/{name}/attach`: the streams of an instance's main process, on an attached session
 * (lib/wire/attached/session.ts).
 *
 * Once the instance runs the server opens three streams as for a command (exec.ts): `stdio`, `stderr` and
 * `command`, whose first line says what the process takes ({@linkcode AttachFields}). The server's last line is
 * {@linkcode AttachEnd}. A client that goes away detaches, and ends nothing: neither the process nor its input.
 * The end of `stdio` is the end of the process's input, except on a terminal.
 */
import type { TerminalSize } from "../base/terminal.ts";
import { setSize, sizeIn } from "./exec.ts";

/** What to attach to, as the query says it. */
export interface AttachQuery {
  /** Absent: the first that runs. */
  instance?: string;
  /** False: the process's input is left alone. */
  stdin?: boolean;
  /** Size of the terminal; ignored where the process has none. */
  size?: TerminalSize;
}

/** What the client is told before the streams. */
export interface AttachFields {
  /** The process has a terminal: `stdio` carries all output, and the client may tell its size. */
  tty: boolean;
  /** Input is taken. */
  stdin: boolean;
}

/** The session is over. */
export interface AttachEnd {
  /** Absent: the process runs on. */
  exit?: number;
}

export function encodeAttachQuery({ instance, stdin, size }: AttachQuery): URLSearchParams {
  const params = new URLSearchParams();
  if (instance !== undefined) params.set("instance", instance);
  if (stdin) params.set("stdin", "1");
  setSize(params, size);
  return params;
}

/** Throws `argument_invalid` for a malformed size. */
export function decodeAttachQuery(params: URLSearchParams): AttachQuery {
  const size = sizeIn(params);
  return {
    instance: params.get("instance") ?? undefined,
    stdin: params.get("stdin") === "1",
    ...(size && { size }),
  };
}
