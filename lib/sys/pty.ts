/**
 * Programs on a pseudo-terminal of their own (pty(7)). Output is read when it is available, and input waits
 * while the program does not read: nothing blocks the event loop.
 */
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import type { TerminalSize } from "../base/terminal.ts";
import { check, errno, isForeignErrno, libc, libcReading } from "./libc.ts";
import { SystemError } from "./errno.ts";
import { close, open } from "./fd.ts";
import { O } from "./files.ts";
import { Readiness } from "./readiness.ts";
import { ioctl, rawMode } from "./termios.ts";

const TIOCSPTLCK = 0x40045431n;
const TIOCGPTPEER = 0x5441n;
const TIOCSWINSZ = 0x5414n;
const O_NOCTTY = 0o400;
const O_NONBLOCK = 0o4000;
const EIO = 5;

/** Bytes of one chunk of output. */
const CHUNK = 32 * 1024;
/**
 * First and last pause between two tries while the program does not read its input; each pause is twice the
 * one before.
 */
const FIRST_PAUSE_MS = 1;
const LAST_PAUSE_MS = 50;

const readiness = new Readiness();
const turn = () => new Promise<void>((next) => setImmediate(next));

/** The side of a terminal where the person sits. */
class Master {
  readonly #fd: number;
  readonly #closed = new AbortController();

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Output of the program; undefined when no process holds the other side any more. */
  async read(): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const chunk = new Uint8Array(new ArrayBuffer(CHUNK));
    let length = 0;
    while (!this.#closed.signal.aborted && length < CHUNK) {
      const space = chunk.subarray(length);
      const got = libcReading().read(this.#fd, space, BigInt(space.length));
      const code = errno[0];
      if (got > 0) length += got;
      else if (length > 0) break;
      else if (got === 0 || code === EIO) return undefined;
      else if (!isForeignErrno(code)) throw new SystemError(code, "read");
      else await readiness.wait(this.#fd, "read");
    }
    // A program that prints without end must not keep other work waiting.
    await turn();
    return length > 0 ? chunk.subarray(0, length) : undefined;
  }

  /** Resolves when the terminal has taken all bytes. Throws EIO where no process is left to read them. */
  async write(bytes: Uint8Array): Promise<void> {
    let rest = bytes as Uint8Array<ArrayBuffer>;
    for (let pause = FIRST_PAUSE_MS; rest.length > 0;) {
      if (this.#closed.signal.aborted) throw new SystemError(EIO, "write");
      const put = libc().write(this.#fd, rest, BigInt(rest.length));
      const code = errno[0];
      if (put > 0) {
        rest = rest.subarray(put);
        pause = FIRST_PAUSE_MS;
        continue;
      }
      if (put < 0 && !isForeignErrno(code)) throw new SystemError(code, "write");
      // epoll does not report reliably when the terminal takes bytes again (the kernel moves them in a
      // thread of its own).
      await sleep(pause, this.#closed.signal).catch(() => {/* the next turn of the loop throws */});
      pause = Math.min(2 * pause, LAST_PAUSE_MS);
    }
  }

  resize({ columns, rows }: TerminalSize): void {
    if (this.#closed.signal.aborted) return;
    const words = new Uint16Array(new ArrayBuffer(8));
    words.set([rows, columns]);
    ioctl(this.#fd, TIOCSWINSZ, new Uint8Array(words.buffer));
  }

  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    readiness.forget(this.#fd);
    close(this.#fd);
  }
}

/** Opens both sides; child processes do not inherit them. */
function openPair(): { master: number; slave: number } {
  const master = open("/dev/ptmx", O.RDWR | O_NOCTTY | O_NONBLOCK);
  try {
    ioctl(master, TIOCSPTLCK, new Uint8Array(new ArrayBuffer(4)));
    const flags = BigInt(O.RDWR | O_NOCTTY | O.CLOEXEC);
    const slave = check(libc().ioctl(master, TIOCGPTPEER, flags), errno[0], "ioctl", "/dev/ptmx");
    return { master, slave };
  } catch (error) {
    close(master);
    throw error;
  }
}

export interface TerminalOptions {
  size: TerminalSize;
  /** Begins without echo, signal keys and line editing: for a program that relays to another terminal. */
  rawKeys?: boolean;
  /** Default: this process's environment. */
  env?: Record<string, string>;
  cwd?: string;
}

export interface TerminalProcess {
  readonly pid: number;
  /** A write resolves when the terminal has taken the bytes. Closing the stream sends nothing. */
  readonly input: WritableStream<Uint8Array>;
  /**
   * Ends when no process holds the terminal any more; cancelling hangs the terminal up. The caller must read
   * or cancel it.
   */
  readonly output: ReadableStream<Uint8Array>;
  /** The program's exit code; 128 + N where signal N ended it. */
  readonly exit: Promise<number>;
  /** Changes the terminal's size; the program gets SIGWINCH. */
  resize(size: TerminalSize): void;
  kill(signal: Deno.Signal): void;
}

/**
 * Starts a program with a new terminal as its standard streams and its controlling terminal, in a session of
 * its own. Throws `prerequisite_missing` where `setsid` is not there.
 */
export async function runOnTerminal(
  command: string,
  args: readonly string[],
  { size, rawKeys, env, cwd }: TerminalOptions,
): Promise<TerminalProcess> {
  // Deno's own commands do not take descriptors.
  const { spawn } = await import("node:child_process");
  const { constants } = await import("node:os");
  const { master: fd, slave } = openPair();
  const master = new Master(fd);
  const exit = Promise.withResolvers<number>();
  let child: ReturnType<typeof spawn>;
  try {
    master.resize(size);
    if (rawKeys) rawMode(slave, "keys");
    child = spawn("setsid", ["--ctty", "--wait", command, ...args], {
      stdio: [slave, slave, slave],
      env,
      cwd,
    });
    const started = Promise.withResolvers<void>();
    child.once("spawn", started.resolve);
    child.once("error", started.reject);
    child.once("exit", (code, signal) => {
      exit.resolve(code ?? 128 + (signal ? constants.signals[signal] : 0));
    });
    await started.promise;
  } catch (error) {
    master.close();
    if ((error as { code?: string }).code !== "ENOENT") throw error;
    throw new SvcError("prerequisite_missing", "Cannot give a command a terminal: no setsid", {
      cause: error,
      help: "install the package util-linux",
    });
  } finally {
    close(slave);
  }
  return {
    pid: child.pid!,
    input: new WritableStream({ write: (bytes) => master.write(bytes) }),
    output: new ReadableStream({
      async pull(controller) {
        try {
          const bytes = await master.read();
          if (bytes) return controller.enqueue(bytes);
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        master.close();
      },
      cancel: () => master.close(),
    }, { highWaterMark: 0 }),
    exit: exit.promise,
    resize: (wanted) => master.resize(wanted),
    kill: (signal) => void child.kill(signal as NodeJS.Signals),
  };
}
