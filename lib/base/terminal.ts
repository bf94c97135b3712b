/** What a command talks to: standard streams, told apart from terminals, and the interrupt. */

export interface TerminalSize {
  columns: number;
  rows: number;
}

export interface Output {
  /**
   * Writes all of it, in the order of calls. A reader that has gone away: throws
   * {@linkcode BrokenPipe} on standard output, is ignored on standard error.
   */
  write(data: string | Uint8Array): Promise<void>;
  readonly isTerminal: boolean;
  /** Of the terminal; undefined where there is none, or it says 0x0. */
  size(): TerminalSize | undefined;
}

export interface Io {
  readonly stdin: { readonly readable: ReadableStream<Uint8Array>; readonly isTerminal: boolean };
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts on SIGINT and SIGTERM; its reason is made by {@linkcode interruption}. */
  readonly signal: AbortSignal;
  /** Aborts with the second such signal: who asks twice wants to leave at once. */
  readonly hurry?: AbortSignal;
}

/** The reader of standard output went away: nothing is left to say. */
export class BrokenPipe extends Error {
  override readonly name = "BrokenPipe";
}

/** The reason to abort `Io.signal` with: the command then ends with 128 + the signal's number. */
export function interruption(signal: "SIGINT" | "SIGTERM"): DOMException & { exitCode: number } {
  return Object.assign(new DOMException(`interrupted by ${signal}`, "AbortError"), {
    exitCode: signal === "SIGINT" ? 130 : 143,
  });
}

const encoder = new TextEncoder();

function output(stream: typeof Deno.stdout | typeof Deno.stderr, fatal: boolean): Output {
  let gone = false;
  let last: Promise<void> = Promise.resolve();
  const writeAll = async (bytes: Uint8Array) => {
    if (gone) return;
    try {
      for (let at = 0; at < bytes.length;) at += await stream.write(bytes.subarray(at));
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      gone = true;
      if (fatal) throw new BrokenPipe("standard output is closed", { cause: error });
    }
  };
  return {
    write(data) {
      const bytes = typeof data === "string" ? encoder.encode(data) : data;
      const done = last.then(() => writeAll(bytes));
      last = done.catch(() => {/* the caller of that write was told */});
      return done;
    },
    get isTerminal() {
      return stream.isTerminal();
    },
    size() {
      if (!stream.isTerminal()) return undefined;
      try {
        const { columns, rows } = Deno.consoleSize();
        return columns > 0 && rows > 0 ? { columns, rows } : undefined;
      } catch {
        return undefined;
      }
    },
  };
}

/** The process's own streams. `signal` and `hurry` are aborted by whoever owns the signal handlers. */
export function systemIo(signal: AbortSignal, hurry?: AbortSignal): Io {
  return {
    stdin: {
      get readable() {
        return Deno.stdin.readable;
      },
      get isTerminal() {
        return Deno.stdin.isTerminal();
      },
    },
    stdout: output(Deno.stdout, true),
    stderr: output(Deno.stderr, false),
    signal,
    hurry,
  };
}
