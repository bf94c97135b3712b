/** The streams of a command: standard input and outputs, whether they are terminals, and the interrupt. */

export interface TerminalSize {
  columns: number;
  rows: number;
}

export interface Output {
  /**
   * Writes all of `data`, in the order of calls: text through {@linkcode harmless}, bytes unchanged. Where
   * the reader has gone away, standard output throws {@linkcode BrokenPipe}, and standard error ignores it.
   */
  write(data: string | Uint8Array): Promise<void>;
  readonly isTerminal: boolean;
  /** Size of the terminal; undefined where there is none, or it reports 0x0. */
  size(): TerminalSize | undefined;
}

export interface Input {
  readonly readable: ReadableStream<Uint8Array>;
  readonly isTerminal: boolean;
  /**
   * Sets the terminal up for a remote program: every key arrives as bytes, output is not changed, and a
   * hang-up aborts `Io.signal`. Resolves to the function that undoes this. Only where `isTerminal`.
   */
  raw?(): Promise<() => void>;
}

export interface Io {
  readonly stdin: Input;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts on SIGINT and SIGTERM; its reason is made by {@linkcode interruption}. */
  readonly signal: AbortSignal;
  /** Aborts at the second such signal: the user wants to leave at once. */
  readonly hurry?: AbortSignal;
  /**
   * Calls `listener` with signals that the process gets, until the returned function is called: INT and TERM
   * instead of aborting `signal`, and others that are usual between programs. Where it returns false, INT and
   * TERM abort.
   */
  onSignal?(listener: (name: string) => boolean): () => void;
  /** Calls `listener` when the terminal's size changes, until the returned function is called. */
  onResize?(listener: () => void): () => void;
}

/** The reader of standard output has gone away: there is nobody to write to. */
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
 * Escapes control characters as JSON does, so that names and messages of servers, images and workloads cannot
 * control the terminal. JSON stays valid.
 */
export function harmless(text: string): string {
  return text.replace(
    OBEYED,
    (found) => found === "\r\n" ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Text that is written unchanged, control characters included. */
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
      last = done.catch(() => {/* the caller of that write gets the error */});
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

/** Events at which a process ends without giving a command time to clean up. */
const ENDS = ["unload", "error", "unhandledrejection"];

function onWindowChange(listener: () => void): () => void {
  // Windows has no such signal.
  if (Deno.build.os === "windows") return () => {};
  Deno.addSignalListener("SIGWINCH", listener);
  return () => Deno.removeSignalListener("SIGWINCH", listener);
}

export interface SystemIo {
  signal: AbortSignal;
  hurry?: AbortSignal;
  /** Makes standard input's terminal raw; resolves to the function that undoes this. */
  rawMode: () => Promise<() => void>;
  /** Makes a hang-up abort `signal`; returns the function that undoes this. */
  onHangup: () => () => void;
  onSignal: Io["onSignal"];
}

/** The process's own streams. `signal` and `hurry` are aborted by whoever owns the signal handlers. */
export function systemIo({ signal, hurry, rawMode, onHangup, onSignal }: SystemIo): Io {
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
    onSignal,
    onResize: onWindowChange,
  };
}
