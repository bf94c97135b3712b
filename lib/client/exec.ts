/** A command in an instance, from the client's side (lib/api/exec.ts). */
import { encodeExecQuery, type ExecEnd, type ExecInput, type ExecQuery } from "../api/exec.ts";
import { SvcError } from "../base/errors.ts";
import type { TerminalSize } from "../base/terminal.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import { attach } from "./attached/attach.ts";
import type { Client } from "./client.ts";

export interface ExecStreams {
  /** Absent: the command has no standard input. */
  stdin?: ReadableStream<Uint8Array>;
  /** Awaited in order. */
  onOutput: (stream: "stdout" | "stderr", data: Uint8Array) => Promise<void>;
  /** Ends the session; the server then ends the command. */
  signal: AbortSignal;
  /** Called once the server has taken the command; awaited before its output. */
  onStart?: () => void | Promise<void>;
  /** Set only for a command on a terminal. */
  terminal?: Terminal;
}

/** The local terminal that shows the command. */
export interface Terminal {
  size(): TerminalSize | undefined;
  onResize(listener: () => void): () => void;
}

/** Sends standard input to its end, or until the command takes no more. */
async function sendInput(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  stdio: YamuxStream,
): Promise<void> {
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    try {
      await stdio.write(value!);
    } catch {
      // The session has ended, which `ended` reports.
      return;
    }
  }
  await stdio.closeWrite();
}

const sameSize = (a: TerminalSize | undefined, b: TerminalSize | undefined) =>
  a?.columns === b?.columns && a?.rows === b?.rows;

/** Sends the window's size to the server whenever it changes. Returns a function that stops this. */
function followSize(
  command: YamuxStream,
  told: TerminalSize | undefined,
  { size, onResize }: Terminal,
): () => void {
  const tell = () => {
    const now = size();
    if (!now || sameSize(told, now)) return;
    told = now;
    writeLine(command, { resize: now } satisfies ExecInput).catch(() => {/* it has ended */});
  };
  const release = onResize(tell);
  // The size may have changed while the connection was made.
  tell();
  return release;
}

/**
 * Runs a command in a deployment's instance and resolves to its exit code. Throws what the server reported, or
 * `upstream_failed` where the connection broke before the command ended.
 */
export async function exec(
  client: Client,
  name: string,
  query: ExecQuery,
  { stdin, onOutput, onStart, signal, terminal }: ExecStreams,
): Promise<number> {
  const size = terminal?.size();
  const opened = {
    command: Promise.withResolvers<YamuxStream>(),
    stdio: Promise.withResolvers<YamuxStream>(),
    stderr: Promise.withResolvers<YamuxStream>(),
  };
  const { command, stdio, stderr } = opened;
  const streams = Promise.all([command.promise, stdio.promise, stderr.promise]);
  using session = await attach(client, `/deployments/${encodeURIComponent(name)}/exec`, {
    ...{ attempt: `exec in ${name}`, signal, begun: streams },
    query: encodeExecQuery({ ...query, ...(size && { size }), stdin: stdin !== undefined }),
    takes: { command: command.resolve, stdio: stdio.resolve, stderr: stderr.resolve },
    lost: () => cutOff(name),
  });
  const [control, io, errors] = await streams;
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {/* its waiter is told */});
  const abort = () => stopped.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const release = terminal && followSize(control, size, terminal);
  let written = Promise.resolve(onStart?.());
  written.catch(() => {/* `ended` tells it */});
  const show = async (stream: "stdout" | "stderr", from: YamuxStream) => {
    for (let data = await from.read(); data; data = await from.read()) {
      const output = data;
      await (written = written.then(() => onOutput(stream, output)));
    }
  };
  const ended = async () => {
    await Promise.all([show("stdout", io), show("stderr", errors)]);
    await written;
    const end = await new LineReader(control).line<ExecEnd>();
    if (typeof end?.exit !== "number") throw cutOff(name);
    return end.exit;
  };
  const reader = stdin?.getReader();
  const input = reader && sendInput(reader, io);
  input?.catch(stopped.reject);
  try {
    const exit = await Promise.race([ended(), stopped.promise]);
    await session.close();
    return exit;
  } finally {
    release?.();
    signal.removeEventListener("abort", abort);
    session[Symbol.dispose]();
    // Cancelling ends a read that waits for the terminal: otherwise the read keeps the process alive.
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
