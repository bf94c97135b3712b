/** The WebSockets of Incus: streams of commands and consoles, control messages, events. */
import type { Buffer } from "node:buffer";

/** The used part of a socket of the package `ws`, which has no types of its own. */
interface RawSocket {
  readonly readyState: number;
  on(event: "message", take: (data: Buffer, isBinary: boolean) => void): void;
  on(event: "close", take: () => void): void;
  on(event: "error", take: (error: Error) => void): void;
  on(event: "open", take: () => void): void;
  send(data: Uint8Array | string, done: (error?: Error | null) => void): void;
  pause(): void;
  resume(): void;
  close(): void;
  terminate(): void;
}

const OPEN = 1;
/** Bytes that may wait for the reader before the socket is held up. */
const MOST_WAITING = 256 * 1024;

export interface IncusSocket {
  /** The next message; undefined: the other side has ended its direction, or all. */
  read(): Promise<Uint8Array | undefined>;
  /** A message that is there already. */
  waiting(): Uint8Array | undefined;
  /** Resolves when it was sent. Throws where the socket is closed. */
  write(bytes: Uint8Array): Promise<void>;
  /** A control message. */
  send(message: unknown): Promise<void>;
  /** Ends this side's direction: an empty text, by Incus's protocol. */
  end(): Promise<void>;
  /** Idempotent. */
  close(): void;
  /** Resolves when it is closed. */
  readonly closed: Promise<void>;
}

class Socket implements IncusSocket {
  readonly closed: Promise<void>;
  readonly #raw: RawSocket;
  readonly #waiting: Uint8Array[] = [];
  #size = 0;
  #over = false;
  #wake = () => {};

  /** `texts`: texts are messages too, not the end of the other side's direction. */
  constructor(raw: RawSocket, texts: boolean) {
    this.#raw = raw;
    const over = () => {
      this.#over = true;
      this.#wake();
    };
    this.closed = new Promise((resolve) =>
      raw.on("close", () => {
        over();
        resolve();
      })
    );
    raw.on("message", (data, isBinary) => {
      if (!isBinary && !texts) return over();
      if (this.#over || data.length === 0) return;
      this.#waiting.push(data);
      this.#size += data.length;
      if (this.#size > MOST_WAITING) raw.pause();
      this.#wake();
    });
  }

  waiting(): Uint8Array | undefined {
    const bytes = this.#waiting.shift();
    this.#size -= bytes?.length ?? 0;
    if (bytes && this.#size <= MOST_WAITING) this.#raw.resume();
    return bytes;
  }

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.waiting();
      if (bytes) return bytes;
      if (this.#over) return undefined;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  #send(data: Uint8Array | string): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#raw.readyState !== OPEN) return reject(new Error("it was closed"));
      this.#raw.send(data, (error) => error ? reject(error) : resolve());
    });
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#send(bytes);
  }

  send(message: unknown): Promise<void> {
    // Incus reads control messages of either kind.
    return this.#send(new TextEncoder().encode(JSON.stringify(message)));
  }

  async end(): Promise<void> {
    if (this.#raw.readyState === OPEN) await this.#send("");
  }

  close(): void {
    this.#raw.resume();
    this.#raw.close();
    // One whose other side does not answer does not stay.
    const timer = setTimeout(() => this.#raw.terminate(), 1000);
    this.closed.finally(() => clearTimeout(timer));
  }
}

/** Opens a WebSocket on a unix socket. Rejects with the system's error, or with what was answered instead. */
export async function openSocket(
  { socket, path, texts = false, signal }: {
    socket: string;
    path: string;
    texts?: boolean;
    signal?: AbortSignal;
  },
): Promise<IncusSocket> {
  signal?.throwIfAborted();
  const { WebSocket } = await import("ws");
  const raw: RawSocket = new WebSocket(`ws+unix:${socket}:${path}`, { perMessageDeflate: false });
  // From the beginning: messages come with the opening.
  const made = new Socket(raw, texts);
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      reject(signal!.reason);
      raw.terminate();
    };
    signal?.addEventListener("abort", abort, { once: true });
    raw.on("open", () => {
      signal?.removeEventListener("abort", abort);
      resolve();
    });
    raw.on("error", (error) => {
      signal?.removeEventListener("abort", abort);
      reject(error);
    });
  });
  return made;
}
