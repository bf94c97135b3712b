/** Lines of JSON over a stream; after any line the stream can be read as bytes. */
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "./duplex.ts";

/** Bytes of one line, at most, where the caller does not say otherwise. */
const MAX_LINE = 4 << 20;

const encoder = new TextEncoder();
const NEWLINE = 10;

export function writeLine(stream: Duplex, value: unknown): Promise<void> {
  return stream.write(encoder.encode(JSON.stringify(value) + "\n"));
}

/** Milliseconds: values that are sent within this time go out together. */
const GATHER_MS = 5;

/** Writes values as lines, several in one write: each write wakes the other side. */
export class LineWriter {
  #stream: Duplex;
  #waiting: string[] = [];
  #timer?: ReturnType<typeof setTimeout>;
  #sending: Promise<void> = Promise.resolve();
  /** Number of completed writes. */
  sent = 0;

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** Does not throw: {@linkcode LineWriter.flush} reports errors. */
  send(value: unknown): void {
    this.#waiting.push(JSON.stringify(value) + "\n");
    this.#timer ??= setTimeout(() => this.#write(), GATHER_MS);
  }

  /** Resolves when everything until now is written. */
  async flush(): Promise<void> {
    this.#write();
    await this.#sending;
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waiting.length === 0) return;
    const bytes = encoder.encode(this.#waiting.splice(0).join(""));
    this.#sending = this.#sending.then(() => this.#stream.write(bytes)).then(() =>
      void this.sent++
    );
    this.#sending.catch(() => {/* thrown by flush */});
  }
}

/** Reads lines first and, from any point on, bytes. */
export class LineReader {
  #stream: Duplex;
  #rest: Uint8Array[] = [];
  #maxLine: number;

  constructor(stream: Duplex, maxLine = MAX_LINE) {
    this.#stream = stream;
    this.#maxLine = maxLine;
  }

  /**
   * The next line's value; undefined at the end. Throws `upstream_failed` for a line that is not JSON or too
   * long.
   */
  async line<T>(): Promise<T | undefined> {
    const parts: Uint8Array[] = [];
    let size = 0;
    while (true) {
      const chunk = await this.read();
      if (!chunk && size === 0) return undefined;
      if (!chunk) throw unreadable("it ends within a line");
      const end = chunk.indexOf(NEWLINE);
      const part = end < 0 ? chunk : chunk.subarray(0, end);
      size += part.length;
      if (size > this.#maxLine) throw unreadable("a line is too long");
      parts.push(part);
      if (end < 0) continue;
      if (end + 1 < chunk.length) this.#rest.unshift(chunk.subarray(end + 1));
      return parse(decode(parts)) as T;
    }
  }

  /**
   * The values of all lines that are here already, at least one; undefined at the end. Throws as
   * {@linkcode line}.
   */
  async lines<T>(): Promise<T[] | undefined> {
    const chunk = await this.read();
    if (!chunk) return undefined;
    const end = chunk.lastIndexOf(NEWLINE);
    this.#rest.unshift(chunk);
    if (end < 0) {
      const value = await this.line<T>();
      return value === undefined ? undefined : [value];
    }
    this.#rest[0] = chunk.subarray(end + 1);
    if (end + 1 === chunk.length) this.#rest.shift();
    return decode([chunk.subarray(0, end)]).split("\n").map((line) => {
      if (line.length > this.#maxLine) throw unreadable("a line is too long");
      return parse(line) as T;
    });
  }

  /** The bytes after the lines that were read. */
  async read(): Promise<Uint8Array | undefined> {
    return this.#rest.shift() ?? await this.#stream.read();
  }
}

function decode(parts: Uint8Array[]): string {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    const text = parts.map((part) => decoder.decode(part, { stream: true })).join("");
    return text + decoder.decode();
  } catch (cause) {
    throw unreadable("a line is not JSON", cause);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unreadable("a line is not JSON", cause);
  }
}

function unreadable(why: string, cause?: unknown): SvcError {
  return new SvcError("upstream_failed", `Cannot read the other side's messages: ${why}`, {
    cause,
    help: "check that both sides are svc of about the same version",
  });
}
