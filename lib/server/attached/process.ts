/** A process and its streams on an attached session (lib/api/exec.ts has what travels). */
import { SvcError } from "../../base/errors.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import { type ExecInput, readTerminalSize } from "../../api/exec.ts";
import type { Attached, Fields } from "../../wire/attached/session.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";

/** Bytes of a line with a terminal's size, at most. */
const MAX_LINE = 1024;

export interface ServedProcess {
  /** Absent: what the client sends as input is not read. */
  stdin?: WritableStreamDefaultWriter<Uint8Array>;
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
  /** Only with a terminal. */
  resize?(size: TerminalSize): void;
  /** The last line that the client gets, once all output was sent. */
  end: Promise<object>;
  /**
   * Called once the client has gone, also after the end. `fed` resolves when what it sent as input was taken, or
   * cannot be: that may be never.
   */
  left(fed: Promise<void>): unknown;
}

/** Passes on standard input to its end. Input that an ended process does not take is dropped. */
async function feed(from: YamuxStream, to: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
  // A process may end without reading its input; its exit code tells.
  to.closed.catch(() => {});
  for (let data = await from.read(); data; data = await from.read()) {
    await to.write(data).catch(() => {/* its exit code tells */});
  }
  await to.close().catch(() => {/* closed already */});
}

/** Passes on output to its end. A process whose client has gone is not held up. */
async function drain(from: ReadableStream<Uint8Array>, to: YamuxStream): Promise<void> {
  for await (const data of from) await to.write(data).catch(() => {/* the client has gone */});
  await to.closeWrite().catch(() => {/* the client has gone */});
}

const unreadable = (attempt: string) =>
  new SvcError(
    "argument_invalid",
    `Cannot ${attempt}: the command has no terminal to resize`,
  );

/** Throws `argument_invalid` for a malformed size, or where there is no terminal. */
async function resize(from: YamuxStream, process: ServedProcess, attempt: string): Promise<void> {
  const lines = new LineReader(from, MAX_LINE);
  for (let line = await lines.line<ExecInput>(); line; line = await lines.line<ExecInput>()) {
    if (!process.resize) throw unreadable(attempt);
    const { columns, rows } = Object(Object(line).resize);
    process.resize(readTerminalSize(columns, rows));
  }
}

/**
 * Serves the streams of a process. Resolves when its end was told and the session is closed. `attempt`: for
 * errors, "exec"; `fields`: what the client is told of the process before its streams.
 */
export async function serveProcess(
  session: Attached,
  process: ServedProcess,
  { attempt, fields }: { attempt: string; fields?: Fields },
): Promise<void> {
  const command = session.open("command", fields);
  const [stdio, stderr] = (["stdio", "stderr"] as const).map((kind) => session.open(kind));
  const feeding = process.stdin ? feed(stdio, process.stdin) : Promise.resolve();
  const fed = feeding.catch(() => {/* the session has ended */});
  void session.closed.then(() => process.left(fed)).catch(() => {/* it ended by itself */});
  resize(command, process, attempt).catch((error) =>
    session.fail(
      error instanceof SvcError && error.code === "argument_invalid" ? error : unreadable(attempt),
    )
  );
  const [, , end] = await Promise.all([
    drain(process.stdout, stdio),
    drain(process.stderr, stderr),
    process.end,
  ]);
  await writeLine(command, end);
  await session.close();
}
