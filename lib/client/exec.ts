/** A process in an instance, from the client's side: a command (lib/api/exec.ts), or the main one (attach.ts). */
import { type AttachEnd, type AttachFields, encodeAttachQuery } from "../api/attach.ts";
import type { SocketPath } from "../api/endpoints.ts";
import { encodeExecQuery, type ExecEnd, type ExecInput, type ExecQuery } from "../api/exec.ts";
import { SvcError } from "../base/errors.ts";
import type { TerminalSize } from "../base/terminal.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import { attach } from "./attached/attach.ts";
import type { Client } from "./client.ts";
import { type ConnectAgent, serveAgent } from "./ssh/serve_agent.ts";

export interface ProcessStreams {
  /** Awaited in order. */
  onOutput: (stream: "stdout" | "stderr", data: Uint8Array) => Promise<void>;
  /** Ends the session. */
  signal: AbortSignal;
}

/** How the client takes part in a process, once the server has it. */
export interface Part {
  /** Absent: nothing is sent. */
  stdin?: ReadableStream<Uint8Array>;
  /** Called when all of `stdin` was sent. False: its end is not passed on, and the client leaves. */
  onInputEnd?: () => boolean;
  /** Set only for a process on a terminal. */
  terminal?: Terminal;
}

export interface ExecStreams extends ProcessStreams, Part {
  /** Called once the server has taken the command; awaited before its output. */
  onStart?: () => void | Promise<void>;
  /** The SSH agent that the command may use while it runs. */
  agent?: ConnectAgent;
}

export interface AttachStreams extends ProcessStreams {
  /** Called once the server waits for the process: it may be started now, and nothing of it is missed. */
  onReady?: () => void | Promise<void>;
  /** Called once the process runs, with what it takes; awaited before its output. */
  onStart: (fields: AttachFields) => Part | Promise<Part>;
}

/** The local terminal that shows the command. */
export interface Terminal {
  size(): TerminalSize | undefined;
  onResize(listener: () => void): () => void;
}

/** Sends standard input to its end, or until the command takes no more. False: the client leaves. */
async function sendInput(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  stdio: YamuxStream,
  onEnd: Part["onInputEnd"],
): Promise<boolean> {
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    try {
      await stdio.write(value!);
    } catch {
      // The session has ended, which `ended` reports.
      return true;
    }
  }
  if (onEnd?.() === false) return false;
  await stdio.closeWrite().catch(() => {/* the session has ended, which `ended` reports */});
  return true;
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

interface Opening {
  path: SocketPath;
  /** "exec in web". */
  attempt: string;
  query: URLSearchParams;
  /** The size that the query has. */
  told?: TerminalSize;
  lost: () => SvcError;
  agent?: ConnectAgent;
  onReady?: () => void | Promise<void>;
  /** Awaited before the output; `fields`: what the server says of the process. */
  begun: (fields: Record<string, unknown>) => Part | Promise<Part>;
}

/** Gives the output to whoever takes it, piece after piece, once `begun` has resolved. Resolves at its end. */
async function showOutput(
  streams: Readonly<Record<"stdout" | "stderr", YamuxStream>>,
  begun: Promise<unknown>,
  onOutput: ProcessStreams["onOutput"],
): Promise<void> {
  let written = begun.then(() => {});
  written.catch(() => {/* told below */});
  const show = async (stream: "stdout" | "stderr") => {
    const from = streams[stream];
    for (let data = await from.read(); data; data = await from.read()) {
      const output = data;
      await (written = written.then(() => onOutput(stream, output)));
    }
  };
  await Promise.all([show("stdout"), show("stderr")]);
  await written;
}

/**
 * Takes part in a process until it ends, and resolves to the server's last line, or to undefined where the
 * client leaves. Throws what the server reported, and the signal's reason.
 */
async function runProcess<End>(
  client: Client,
  { path, attempt, query, told, lost, agent, begun, onReady }: Opening,
  { onOutput, signal }: ProcessStreams,
): Promise<End | undefined> {
  const opened = {
    command: Promise.withResolvers<[YamuxStream, Record<string, unknown>]>(),
    stdio: Promise.withResolvers<YamuxStream>(),
    stderr: Promise.withResolvers<YamuxStream>(),
  };
  const { command, stdio, stderr } = opened;
  const streams = Promise.all([command.promise, stdio.promise, stderr.promise]);
  using session = await attach(client, path, {
    ...{ attempt, signal, query, begun: streams, lost, onReady },
    takes: {
      command: (stream, fields) => command.resolve([stream, fields]),
      ...{ stdio: stdio.resolve, stderr: stderr.resolve },
      ...agent && {
        ssh: async (stream: YamuxStream) => {
          await serveAgent(stream, "default", agent);
          await stream.closeWrite();
        },
      },
    },
  });
  const [[control, fields], io, errors] = await streams;
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {/* its waiter is told */});
  const abort = () => stopped.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const part = Promise.try(begun, fields);
  const ended = async () => {
    await showOutput({ stdout: io, stderr: errors }, part, onOutput);
    const end = await new LineReader(control).line<End>();
    if (end === undefined) throw lost();
    return end;
  };
  const left = Promise.withResolvers<undefined>();
  const taking = takePart(part, {
    ...{ control, io, told, failed: stopped.reject, leave: () => left.resolve(undefined) },
  });
  try {
    const end = await Promise.race([ended(), stopped.promise, left.promise]);
    // A socket loses what it has not sent when the process ends.
    if (end === undefined) await Promise.race([session.received(), stopped.promise]);
    await session.close();
    return end;
  } finally {
    signal.removeEventListener("abort", abort);
    session[Symbol.dispose]();
    await taking();
  }
}

interface Taking {
  control: YamuxStream;
  io: YamuxStream;
  told?: TerminalSize;
  failed: (error: unknown) => void;
  leave: () => void;
}

/** Sends input and sizes once the part is known. Returns a function that ends it. */
function takePart(
  part: Promise<Part>,
  { control, io, told, failed, leave }: Taking,
): () => Promise<void> {
  const begun = part.then(({ stdin, terminal, onInputEnd }) => {
    const release = terminal && followSize(control, told, terminal);
    const reader = stdin?.getReader();
    const input = reader && sendInput(reader, io, onInputEnd);
    input?.then((stays) => stays || leave(), failed);
    return { release, reader, input };
  });
  begun.catch(failed);
  return async () => {
    const { release, reader, input } = await begun.catch((): Partial<
      Awaited<typeof begun>
    > => ({}));
    release?.();
    // Cancelling ends a read that waits for the terminal: otherwise the read keeps the process alive.
    if (reader) await Promise.allSettled([reader.cancel(), input]);
  };
}

/**
 * Runs a command in a deployment's instance and resolves to its exit code. The server ends the command with the
 * session. Throws what the server reported, or `upstream_failed` where the connection broke before the command
 * ended.
 */
export async function exec(
  client: Client,
  name: string,
  query: ExecQuery,
  { stdin, onStart, terminal, agent, ...streams }: ExecStreams,
): Promise<number> {
  const size = terminal?.size();
  const end = await runProcess<ExecEnd>(client, {
    path: `/deployments/${encodeURIComponent(name)}/exec`,
    attempt: `exec in ${name}`,
    query: encodeExecQuery({
      ...query,
      ...(size && { size }),
      stdin: stdin !== undefined,
      agent: agent !== undefined,
    }),
    ...agent && { agent },
    ...size && { told: size },
    lost: () => cutOff(name),
    begun: async () => {
      await onStart?.();
      return { ...stdin && { stdin }, ...terminal && { terminal } };
    },
  }, streams);
  if (typeof end?.exit !== "number") throw cutOff(name);
  return end.exit;
}

export interface AttachOptions {
  instance?: string;
  /** True: input is sent where the process takes it. */
  stdin: boolean;
  /** The terminal's size at the start. */
  size?: TerminalSize;
}

/**
 * Attaches to the main process of a deployment's instance, and resolves to its exit code, or to undefined where
 * the server or the client detached. Ending the session ends nothing else.
 */
export async function attachMain(
  client: Client,
  name: string,
  { instance, stdin, size }: AttachOptions,
  { onStart, onReady, ...streams }: AttachStreams,
): Promise<number | undefined> {
  const end = await runProcess<AttachEnd>(client, {
    path: `/deployments/${encodeURIComponent(name)}/attach`,
    attempt: `attach to ${name}`,
    query: encodeAttachQuery({ instance, stdin, ...size && { size } }),
    ...size && { told: size },
    lost: () => detachedFrom(name),
    onReady,
    begun: ({ tty, stdin }) => onStart({ tty: tty === true, stdin: stdin === true }),
  }, streams);
  return typeof end?.exit === "number" ? end.exit : undefined;
}

const detachedFrom = (name: string) =>
  new SvcError("upstream_failed", `Cannot stay attached to ${name}: the connection broke`, {
    help: "attach again; the process runs on",
  });

function cutOff(name: string): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot tell how the command in ${name} ended: the server closed the connection`,
    { help: "look at `svc status` and the server's log" },
  );
}
