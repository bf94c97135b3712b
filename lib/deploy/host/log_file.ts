/**
 * Reads the logs that a container monitor writes: lines of text, `TIME STREAM F|P TEXT` (the format of the
 * Kubernetes CRI). A long line comes in parts marked P. One older file is kept beside the log as `.1`.
 */
import { concat } from "../../base/collect.ts";
import type { LogFrame } from "../../api/deployment.ts";
import { logFrame } from "../log_frame.ts";

/** A line longer than this is delivered in several frames. */
const LONGEST_LINE = 1024 * 1024;
const BLOCK = 64 * 1024;
const POLL = 100;

export interface ReadLogOptions {
  follow?: boolean;
  tail?: number;
  since?: Date;
  until?: Date;
  signal?: AbortSignal;
  /** While following: true once the log is complete. */
  ended?: () => boolean;
}

const decoder = new TextDecoder();

/** Longest time, stream and tag at the start of a log line. */
const LONGEST_HEAD = 64;

/** The fields before the text, and where the text begins; undefined where the line is not a log line. */
export function headOf(line: Uint8Array) {
  const head = decoder.decode(line.subarray(0, LONGEST_HEAD));
  const match = /^(\S+) (stdout|stderr) ([FP])(?: |$)/.exec(head);
  if (!match) return undefined;
  const [{ length }, time, stream, tag] = match;
  return { time, stream: stream as LogFrame["stream"], whole: tag === "F", text: length };
}

interface Begun {
  time: string;
  parts: Uint8Array[];
  size: number;
}

/** Joins the parts of long lines; one assembler per sequence of files. */
class Assembler {
  #begun = new Map<LogFrame["stream"], Begun>();

  constructor(readonly instance: string) {}

  /** The frame that this line completes, if any. A line that is not a log line is skipped. */
  push(line: Uint8Array): LogFrame | undefined {
    const head = headOf(line);
    if (!head) return undefined;
    const { time, stream, whole } = head;
    const text = line.subarray(head.text);
    const begun = this.#begun.get(stream) ?? { parts: [], size: 0 };
    const parts: Uint8Array[] = begun.parts;
    parts.push(text);
    const size = begun.size + text.length;
    if (!whole && size < LONGEST_LINE) {
      this.#begun.set(stream, { time, parts, size });
      return undefined;
    }
    this.#begun.delete(stream);
    return this.#frame(time, stream, parts, whole);
  }

  /** Frames of incomplete lines: output that ended without a newline. */
  flush(): LogFrame[] {
    const frames = [...this.#begun].map(([stream, { time, parts }]) =>
      this.#frame(time, stream, parts, false)
    );
    this.#begun.clear();
    return frames;
  }

  #frame(
    time: string,
    stream: LogFrame["stream"],
    parts: Uint8Array[],
    whole: boolean,
  ): LogFrame {
    const bytes = parts.length === 1 ? parts[0] : concat(parts);
    return logFrame({ time, instance: this.instance, stream, bytes, whole });
  }
}

/** An open file read line by line; an incomplete last line waits for its rest. */
export class LogFileReader {
  readonly file: Deno.FsFile;
  readonly inode: number | null;
  /** Kept: a follower that found nothing would leave one behind ten times a second. */
  readonly #block = new Uint8Array(BLOCK);
  #rest = new Uint8Array(0);
  /** Offset of the bytes that were not read yet. */
  #at = 0;

  private constructor(file: Deno.FsFile, inode: number | null) {
    this.file = file;
    this.inode = inode;
  }

  static async open(path: string): Promise<LogFileReader | undefined> {
    try {
      // Our own: a log that the monitor writes.
      const file = await Deno.open(path);
      return new LogFileReader(file, (await file.stat()).ino);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  /** The complete lines that can be read now; none at the end of the file. */
  async next(): Promise<Uint8Array[]> {
    for (;;) {
      const count = await this.file.read(this.#block);
      if (count === null) return [];
      this.#at += count;
      const bytes = new Uint8Array(this.#rest.length + count);
      bytes.set(this.#rest);
      bytes.set(this.#block.subarray(0, count), this.#rest.length);
      const end = bytes.lastIndexOf(10);
      if (end < 0) {
        this.#rest = bytes;
        continue;
      }
      this.#rest = bytes.slice(end + 1);
      const lines: Uint8Array[] = [];
      for (let from = 0; from <= end;) {
        const to = bytes.indexOf(10, from);
        lines.push(bytes.subarray(from, to));
        from = to + 1;
      }
      return lines;
    }
  }

  /** Offset of the first line that was not delivered yet. */
  get position(): number {
    return this.#at - this.#rest.length;
  }

  async size(): Promise<number> {
    return (await this.file.stat()).size;
  }

  /** Moves to `offset`; the line that `offset` cuts is not delivered. */
  async seek(offset: number): Promise<void> {
    await this.file.seek(offset, Deno.SeekMode.Start);
    this.#at = offset;
    this.#rest = new Uint8Array(0);
  }

  close(): void {
    this.file.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * The last `count` frames of one file, oldest first; leaves the reader at the end. `whole`: an incomplete line
 * counts as well.
 */
async function lastFrames(
  reader: LogFileReader,
  instance: string,
  count: number,
  whole: boolean,
): Promise<LogFrame[]> {
  const size = await reader.size();
  for (let window = BLOCK;; window *= 4) {
    const from = Math.max(0, size - window);
    await reader.seek(from);
    const assembler = new Assembler(instance);
    const frames: LogFrame[] = [];
    let first = from > 0;
    for (let lines = await reader.next(); lines.length > 0; lines = await reader.next()) {
      for (const line of lines) {
        // The reading began in the middle: the first line and its later parts are incomplete.
        if (first) {
          first = !headOf(line)?.whole;
          continue;
        }
        const frame = assembler.push(line);
        if (frame) frames.push(frame);
        if (frames.length > count) frames.shift();
      }
    }
    if (whole) frames.push(...assembler.flush());
    if (frames.length >= count || from === 0) {
      return frames.slice(Math.max(0, frames.length - count));
    }
  }
}

const delay = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The frames of the lines that the file has now. */
async function* framesOf(
  reader: LogFileReader | undefined,
  assembler: Assembler,
): AsyncGenerator<LogFrame[]> {
  for (let lines = await reader?.next(); lines?.length; lines = await reader?.next()) {
    yield lines.map((line) => assembler.push(line)).filter((frame) => frame !== undefined);
  }
}

/** What comes before the lines that the open file `reader` still has: its last frames, or the older file. */
async function* earlierFrames(
  path: string,
  reader: LogFileReader | undefined,
  assembler: Assembler,
  { tail, follow }: ReadLogOptions,
): AsyncGenerator<LogFrame[]> {
  const { instance } = assembler;
  const frames = tail === undefined || !reader
    ? []
    : await lastFrames(reader, instance, tail, !follow);
  if (tail === undefined || frames.length < tail) {
    using older = await LogFileReader.open(`${path}.1`);
    // Rotated between the two openings: both are the same file.
    if (!older || older.inode === reader?.inode) yield frames;
    else if (tail === undefined) yield* framesOf(older, assembler);
    else yield [...await lastFrames(older, instance, tail - frames.length, false), ...frames];
  } else yield frames;
}

/** Frames of one instance's log, oldest first, those of a block together. A missing log is empty. */
export async function* readLog(
  path: string,
  instance: string,
  options: ReadLogOptions = {},
): AsyncGenerator<LogFrame[]> {
  const { follow, signal } = options;
  const since = options.since?.getTime() ?? -Infinity;
  const until = options.until?.getTime() ?? Infinity;
  const assembler = new Assembler(instance);
  const isLate = ({ time }: LogFrame) => Date.parse(time) > until;
  /** Those that were asked for: of a time, and none behind the first that is too late. */
  const wanted = (frames: LogFrame[]) => {
    const late = frames.findIndex(isLate);
    return (late < 0 ? frames : frames.slice(0, late))
      .filter(({ time }) => Date.parse(time) >= since);
  };
  let reader = await LogFileReader.open(path);
  // In the middle of a rotation the writer still writes to the moved file.
  if (!reader && follow) reader = await LogFileReader.open(`${path}.1`);
  try {
    for await (const frames of earlierFrames(path, reader, assembler, options)) {
      yield wanted(frames);
      if (frames.some(isLate)) return;
    }
    for (;;) {
      // Asked before the read: everything written until then is read below.
      const ended = !follow || signal?.aborted || options.ended?.() || Date.now() > until;
      const moved = reader && follow && await replaced(path, reader);
      for await (const frames of framesOf(reader, assembler)) {
        yield wanted(frames);
        if (signal?.aborted || frames.some(isLate)) return;
      }
      if (moved || !reader) {
        const next: LogFileReader | undefined = await LogFileReader.open(path);
        if (next) {
          reader?.close();
          reader = next;
          continue;
        }
      }
      if (ended) return void (yield wanted(assembler.flush()));
      await delay(POLL);
    }
  } finally {
    reader?.close();
  }
}

/** True where the path names another file now: the open one gets no more lines. */
export async function replaced(path: string, reader: LogFileReader): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => undefined);
  return info !== undefined && info.ino !== reader.inode;
}

/**
 * Moves a log that has reached `limit` bytes to `.1` and lets the writer open a new file. Until then the writer
 * goes on in the moved file, so no line is lost. True where it rotated.
 */
export async function rotateLog(
  path: string,
  limit: number,
  reopen: () => Promise<void>,
): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info || info.size < limit) return false;
  await Deno.rename(path, `${path}.1`);
  await reopen();
  return true;
}

type Log = AsyncGenerator<LogFrame[]>;

/** Frames of several logs as they arrive. */
async function* asTheyCome(logs: Log[]): Log {
  // Not Promise.race: each race would stay with the promise of a quiet log, as long as that waits.
  const arrived: { log: Log; next: ReturnType<Log["next"]> }[] = [];
  let turn = Promise.withResolvers<void>();
  const pull = (log: Log) => {
    const next = log.next();
    const arrive = () => {
      arrived.push({ log, next });
      turn.resolve();
    };
    next.then(arrive, arrive);
  };
  logs.forEach(pull);
  for (let open = logs.length; open > 0;) {
    await turn.promise;
    turn = Promise.withResolvers();
    for (const { log, next } of arrived.splice(0)) {
      const { done, value } = await next;
      if (done) open--;
      else {
        pull(log);
        yield value;
      }
    }
  }
}

/** The next frames of a log, backwards: undefined at its end. */
async function nextFrames(log: Log): Promise<{ log: Log; frames: LogFrame[] } | undefined> {
  const { done, value } = await log.next();
  if (done) return undefined;
  return value.length > 0 ? { log, frames: value.toReversed() } : await nextFrames(log);
}

/** Frames of several logs that end, ordered by time. */
async function* byTime(logs: Log[]): Log {
  const heads = (await Promise.all(logs.map(nextFrames))).filter((head) => head !== undefined);
  while (heads.length > 0) {
    const merged: LogFrame[] = [];
    let least = 0;
    do {
      least = 0;
      for (let i = 1; i < heads.length; i++) {
        if (heads[i].frames.at(-1)!.time < heads[least].frames.at(-1)!.time) least = i;
      }
      merged.push(heads[least].frames.pop()!);
    } while (heads[least].frames.length > 0);
    yield merged;
    const next = await nextFrames(heads[least].log);
    if (next) heads[least] = next;
    else heads.splice(least, 1);
  }
}

/** Frames of several instances: ordered by time, or as they arrive while following. */
export async function* mergeLogs(logs: Log[], follow: boolean): Log {
  try {
    yield* follow ? asTheyCome(logs) : byTime(logs);
  } finally {
    // A log that waits for more lines ends at its signal. Not awaited: a quiet log would delay the reader.
    for (const log of logs) log.return(undefined).catch(() => {/* it failed already */});
  }
}
