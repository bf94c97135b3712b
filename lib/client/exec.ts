/** The exec session's client side (frames: lib/api/exec.ts). */
import {
  decodeExecFrame,
  encodeExecFrame,
  encodeExecQuery,
  type ExecFrame,
  type ExecQuery,
} from "../api/exec.ts";
import { SvcError } from "../base/errors.ts";
import type { TerminalSize } from "../base/terminal.ts";
import { type Client, problemError } from "./client.ts";

/** Bytes that may wait in the socket, or at the server, before standard input is read on. */
const WINDOW = 1 << 20;
const CHUNK = 64 * 1024;

export interface ExecStreams {
  /** Absent: the command has no standard input. */
  stdin?: ReadableStream<Uint8Array>;
  /** Awaited in order. */
  onOutput: (stream: "stdout" | "stderr", data: Uint8Array) => Promise<void>;
  /** Ends the session; the server then ends the command. */
  signal: AbortSignal;
  /** Called once the server has taken the command; awaited before its output. */
  onStart?: () => void | Promise<void>;
  /** Only on a terminal. */
  terminal?: Terminal;
}

/** The window that the command is shown in. */
export interface Terminal {
  size(): TerminalSize | undefined;
  onResize(listener: () => void): () => void;
}

/** Bytes of standard input that the command has not taken yet. */
interface Flow {
  unacknowledged: number;
}

async function drained(socket: WebSocket, flow: Flow): Promise<void> {
  while (
    Math.max(socket.bufferedAmount, flow.unacknowledged) > WINDOW &&
    socket.readyState === WebSocket.OPEN
  ) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function sendInput(
  socket: WebSocket,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  flow: Flow,
): Promise<void> {
  while (socket.readyState === WebSocket.OPEN) {
    const { done, value } = await reader.read();
    if (socket.readyState !== WebSocket.OPEN) return;
    if (done) {
      socket.send(encodeExecFrame({ channel: "control", control: { eof: true } }));
      return;
    }
    for (let at = 0; at < value.length; at += CHUNK) {
      const data = new Uint8Array(value.subarray(at, at + CHUNK));
      socket.send(encodeExecFrame({ channel: "stdin", data }));
      flow.unacknowledged += data.length;
      await drained(socket, flow);
    }
  }
}

const sameSize = (a: TerminalSize | undefined, b: TerminalSize | undefined) =>
  a?.columns === b?.columns && a?.rows === b?.rows;

/** Tells the server the size of the window whenever it is another one; what it returns ends that. */
function followSize(
  socket: WebSocket,
  told: TerminalSize | undefined,
  { size, onResize }: Terminal,
): () => void {
  const tell = () => {
    const now = size();
    if (!now || sameSize(told, now) || socket.readyState !== WebSocket.OPEN) return;
    told = now;
    socket.send(encodeExecFrame({ channel: "control", control: { resize: now } }));
  };
  const release = onResize(tell);
  // It may have changed while the connection was made.
  tell();
  return release;
}

/**
 * Runs a command in a deployment's instance; its exit code. Throws what the server reported, or
 * `upstream_failed` where the connection broke before the command ended.
 */
export async function exec(
  client: Client,
  name: string,
  query: ExecQuery,
  streams: ExecStreams,
): Promise<number> {
  const ended = Promise.withResolvers<number>();
  // Rejected before anyone waits for it where the socket cannot be opened.
  ended.promise.catch(() => {});
  const flow: Flow = { unacknowledged: 0 };
  let written: Promise<void> = Promise.resolve();
  let begun = false;
  const begin = () => {
    if (begun) return;
    begun = true;
    written = written.then(() => streams.onStart?.());
    written.catch(ended.reject);
  };
  const afterOutput = (act: () => void) => void written.then(act, ended.reject);
  const onFrame = (frame: ExecFrame) => {
    // An error in the first place is of a command that never ran.
    if (frame.channel !== "control" || !("error" in frame.control)) begin();
    if (frame.channel === "stdout" || frame.channel === "stderr") {
      const { channel, data } = frame;
      written = written.then(() => streams.onOutput(channel, data));
      written.catch(ended.reject);
    } else if (frame.channel === "control") {
      const { control } = frame;
      if ("ack" in control) flow.unacknowledged -= control.ack;
      if ("exit" in control) afterOutput(() => ended.resolve(control.exit));
      if ("error" in control) afterOutput(() => ended.reject(problemError(control.error)));
    }
  };
  const size = streams.terminal?.size();
  const socket = await client.socket(
    `/deployments/${encodeURIComponent(name)}/exec`,
    encodeExecQuery({ ...query, ...(size && { size }), stdin: streams.stdin !== undefined }),
    {
      onMessage(data) {
        try {
          onFrame(decodeExecFrame(data));
        } catch (error) {
          ended.reject(error);
        }
      },
      onClose: () => {
        begin();
        afterOutput(() => ended.reject(cutOff(name)));
      },
    },
  );
  const release = streams.terminal && followSize(socket, size, streams.terminal);
  const abort = () => ended.reject(streams.signal.reason);
  streams.signal.addEventListener("abort", abort, { once: true });
  if (streams.signal.aborted) abort();
  const reader = streams.stdin?.getReader();
  const input = reader && sendInput(socket, reader, flow).catch(ended.reject);
  try {
    return await ended.promise;
  } finally {
    release?.();
    streams.signal.removeEventListener("abort", abort);
    socket.close();
    // A read that waits for the terminal must not keep the process: cancelling ends it.
    if (reader) await Promise.allSettled([reader.cancel(), input]);
  }
}

function cutOff(name: string): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot tell how the command in ${name} ended: the server closed the connection`,
    { help: "look at `svc status` and the server's log" },
  );
}
