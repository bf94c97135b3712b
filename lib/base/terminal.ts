/** What a command talks to: standard streams, told apart from terminals, and the interrupt. */

export interface TerminalSize {
  columns: number;
  rows: number;
}

export interface Output {
  /**
   * Writes all of it, in the order of calls: text as {@linkcode harmless} has it, bytes as they are. A reader that has gone away: throws
   * {@linkcode BrokenPipe} on standard output, is ignored on standard error.
   */
  write(data: string | Uint8Array): Promise<void>;
  readonly isTerminal: boolean;
  /** Of the terminal; undefined where there is none, or it says 0x0. */
  size(): TerminalSize | undefined;
}

export interface Input {
  readonly readable: ReadableStream<Uint8Array>;
  readonly isTerminal: boolean;
  /**
   * The terminal for a program elsewhere: every key comes as bytes, output goes as it is, and a hang-up
   * aborts `Io.signal`, until the function that it resolves to is called. Only where `isTerminal`.
   */
  raw?(): Promise<() => void>;
}

export interface Io {
  readonly stdin: Input;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts on SIGINT and SIGTERM; its reason is made by {@linkcode interruption}. */
  readonly signal: AbortSignal;
  /** Aborts with the second such signal: who asks twice wants to leave at once. */
  readonly hurry?: AbortSignal;
  /** Calls back when the terminal has another size, until the function that it returns is called. */
  onResize?(listener: () => void): () => void;
}

/** The reader of standard output went away: nothing is left to say. */
export class BrokenPipe extends Error {
  override readonly name = "BrokenPipe";
}

const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
export type Interruption = keyof typeof EXIT_CODES;

/** The reason to abort `Io.signal` with: the command then ends with 128 + the signal's number. */
export function interruption(signal: Interruption): DOMException & { exitCode: number } {
  return Object.assign(new DOMException(`interrupted by ${signal}`, "AbortError"), {
    exitCode: EXIT_CODES[signal],
  });
}

const encoder = new TextEncoder();

// deno-lint-ignore no-control-regex -- exactly what a terminal obeys, but for new lines and tabs
const OBEYED = /\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/**
 * Names, messages and last lines come from servers, images and workloads: what a terminal would obey is
 * shown as JSON writes it, so that JSON stays the same.
 */
export function harmless(text: string): string {
  return text.replace(
    OBEYED,
    (found) => found === "\r\n" ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Text that draws, or that is handed on as it came. */
export const asIs = (text: string): Uint8Array => encoder.encode(text);

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
      const bytes = typeof data === "string" ? encoder.encode(harmless(data)) : data;
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

/** How a process ends that leaves no command the time to tidy up. */
const ENDS = ["unload", "error", "unhandledrejection"];

function onWindowChange(listener: () => void): () => void {
  // Nobody tells of it there.
  if (Deno.build.os === "windows") return () => {};
  Deno.addSignalListener("SIGWINCH", listener);
  return () => Deno.removeSignalListener("SIGWINCH", listener);
}

export interface SystemIo {
  signal: AbortSignal;
  hurry?: AbortSignal;
  /** Makes standard input's terminal raw; what it resolves to takes that back. */
  rawMode: () => Promise<() => void>;
  /** Sees to it that a hang-up aborts `signal`. */
  onHangup: () => () => void;
}

/** The process's own streams. `signal` and `hurry` are aborted by whoever owns the signal handlers. */
export function systemIo({ signal, hurry, rawMode, onHangup }: SystemIo): Io {
  return {
    stdin: {
      get readable() {
        return Deno.stdin.readable;
      },
      get isTerminal() {
        return Deno.stdin.isTerminal();
      },
      async raw() {
        const cook = await rawMode();
        const release = onHangup();
        let raw = true;
        const restore = () => {
          if (!raw) return;
          raw = false;
          for (const name of ENDS) removeEventListener(name, restore);
          release();
          cook();
        };
        for (const name of ENDS) addEventListener(name, restore);
        return restore;
      },
    },
    stdout: output(Deno.stdout, true),
    stderr: output(Deno.stderr, false),
    signal,
    hurry,
    onResize: onWindowChange,
  };
}
