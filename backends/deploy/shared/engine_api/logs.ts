/** Logs of a container, as frames with their bytes as they were printed. */
import type { LogFrame } from "../../../../lib/api/deployment.ts";
import { concat } from "../../../../lib/base/collect.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import type { LogOptions } from "../../../../lib/deploy/backend.ts";
import { logFrame } from "../../../../lib/deploy/log_frame.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { unixTime } from "../../../../lib/docker/events.ts";
import { type OutputStream, readFrames } from "../../../../lib/docker/frames.ts";
import { type Inspected, isActive } from "./inspect.ts";

/** A line longer than this is told in several frames. */
const LONGEST_LINE = 1024 * 1024;
/** Bytes of a part of a longer line, but for the last part. */
const PART = 16 * 1024;
/** Milliseconds between looks whether a container that ended begins again. */
const LOOK_MS = 100;
const NEWLINE = 10;
const SPACE = 32;

const decoder = new TextDecoder();

export interface LogSource {
  client: DockerClient;
  container: string;
  instance: string;
  /** The engine miscounts the last lines where one has no end: svc counts them. */
  ownTail?: boolean;
  /** What the container is now; undefined: it is gone. */
  look: () => Promise<Inspected | undefined>;
}

/** What the engine writes for one line, or for a part of a line longer than its buffer. */
interface Part {
  stream: OutputStream;
  time: string;
  bytes: Uint8Array;
  /** A newline follows. */
  whole: boolean;
}

/** A message of which parts have come. A long one is taken before its end: memory is bounded. */
class Message {
  size = 0;
  #pieces: Uint8Array[] = [];
  /** That of the message's first part. */
  #time: string | undefined;

  add(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.size += piece.length;
  }

  get isLong(): boolean {
    return this.size >= LONGEST_LINE;
  }

  /** What has come. `last`: the message ends here. */
  take(stream: OutputStream, last: boolean): Part {
    let bytes = concat(this.#pieces);
    this.#pieces = [];
    this.size = 0;
    if (this.#time === undefined) {
      const space = bytes.indexOf(SPACE);
      this.#time = decoder.decode(bytes.subarray(0, Math.max(space, 0)));
      bytes = bytes.subarray(space + 1);
    }
    const time = this.#time;
    const whole = last && bytes.at(-1) === NEWLINE;
    if (last) this.#time = undefined;
    return { stream, time, bytes: whole ? bytes.subarray(0, -1) : bytes, whole };
  }
}

/** Each message of the engine's is one frame. */
async function* framed(output: AsyncIterable<Uint8Array>): AsyncGenerator<Part[]> {
  const message = new Message();
  for await (const frames of readFrames(output)) {
    const parts: Part[] = [];
    for (const { stream, bytes, last } of frames) {
      message.add(bytes);
      if (last || message.isLong) parts.push(message.take(stream, last));
    }
    yield parts;
  }
}

/** With a terminal the messages come without frames: a line is a message. */
async function* unframed(output: AsyncIterable<Uint8Array>): AsyncGenerator<Part[]> {
  const message = new Message();
  for await (const chunk of output) {
    const parts: Part[] = [];
    let from = 0;
    for (let at; (at = chunk.indexOf(NEWLINE, from)) >= 0; from = at + 1) {
      message.add(chunk.subarray(from, at + 1));
      parts.push(message.take("stdout", true));
    }
    if (from < chunk.length) message.add(chunk.subarray(from));
    if (message.isLong) parts.push(message.take("stdout", false));
    yield parts;
  }
  if (message.size > 0) yield [message.take("stdout", true)];
}

/**
 * Joins the parts of long lines. `silent`: docker's driver "local", which does not tell the newline of a line that
 * it took apart. `follow`: where the source breaks off within a line, that is not told: the log is read once more.
 */
async function* lines(
  source: AsyncIterable<Part[]>,
  instance: string,
  { silent, follow }: { silent: boolean; follow: boolean },
): AsyncGenerator<LogFrame[]> {
  const begun = new Map<OutputStream, { time: string; bytes: Uint8Array[]; size: number }>();
  for await (const parts of source) {
    const frames: LogFrame[] = [];
    for (const { stream, time, bytes, whole: told } of parts) {
      const line = begun.get(stream) ?? { time, bytes: [], size: 0 };
      const whole = told || silent && line.bytes.length > 0 && bytes.length < PART;
      line.bytes.push(bytes);
      line.size += bytes.length;
      if (!whole && line.size < LONGEST_LINE) {
        begun.set(stream, line);
        continue;
      }
      begun.delete(stream);
      frames.push(
        logFrame({ time: line.time, instance, stream, bytes: concat(line.bytes), whole }),
      );
    }
    yield frames;
  }
  if (follow) return;
  yield [...begun].map(([stream, { time, bytes }]) =>
    logFrame({ time, instance, stream, bytes: concat(bytes), whole: false })
  );
}

type Asked = Pick<LogOptions, "follow" | "tail" | "signal"> & { since?: string; until?: string };

async function* once(
  { client, container, instance }: LogSource,
  { follow, tail, since, until, signal }: Asked,
  { Config: { Tty }, HostConfig }: Inspected,
): AsyncGenerator<LogFrame[]> {
  const body = await client.stream({
    path: `/containers/${container}/logs`,
    query: {
      stdout: true,
      stderr: true,
      timestamps: true,
      follow,
      tail: tail === undefined ? "all" : tail,
      since,
      until,
    },
    attempted: `Cannot read the log of ${instance}`,
    signal,
  });
  const silent = HostConfig.LogConfig?.Type === "local";
  yield* lines(Tty ? unframed(body) : framed(body), instance, { silent, follow: follow === true });
}

const timeOf = (date?: Date) => date && unixTime(date.toISOString());

const SECOND = 1_000_000_000n;

/** A frame's time, so many nanoseconds later. */
function moved(time: string, by: bigint): string {
  const [seconds, nanos] = unixTime(time).split(".");
  const at = BigInt(seconds) * SECOND + BigInt(nanos) + by;
  return `${at / SECOND}.${String(at % SECOND).padStart(9, "0")}`;
}

/** The last frames that were told, by stream. */
class Told {
  /** Of all streams; undefined: none was told. */
  last: string | undefined;
  /** How many of that time. */
  atLast = 0;
  #first: string | undefined;
  /** The last time of each stream, and how many of that time. */
  readonly #lasts = new Map<LogFrame["stream"], { time: string; count: number }>();

  add({ time, stream }: LogFrame): void {
    this.#first ??= time;
    const known = this.#lasts.get(stream);
    if (known?.time === time) known.count++;
    else this.#lasts.set(stream, { time, count: 1 });
    if (time === this.last) this.atLast++;
    if (this.last !== undefined && time <= this.last) return;
    this.last = time;
    this.atLast = 1;
  }

  /**
   * For one more reading of the log: false for a frame that was told, or is from before what was asked for. Frames of
   * one time come in their order: some engines tell whole seconds.
   */
  lacking(): (frame: LogFrame) => boolean {
    const first = this.#first;
    const left = structuredClone(this.#lasts);
    return ({ time, stream }) => {
      const known = left.get(stream);
      if (!known) return first === undefined || time > first;
      return time > known.time || time === known.time && known.count-- <= 0;
    };
  }
}

/**
 * The frames of one container, those that came at once together. Following ends when the container has ended and is
 * not to begin again.
 */
export async function* readLogs(
  source: LogSource,
  { follow = false, tail, since, until, signal }: LogOptions = {},
): AsyncGenerator<LogFrame[]> {
  const found = await source.look();
  if (!found) return;
  const asked: Asked = { follow, tail, since: timeOf(since), until: timeOf(until), signal };
  const told = new Told();
  let { StartedAt: run } = found.State;
  try {
    if (source.ownTail && tail !== undefined) {
      const kept: LogFrame[] = [];
      for await (
        const frames of once(source, { ...asked, follow: false, tail: undefined }, found)
      ) {
        for (const frame of frames) told.add(frame);
        kept.push(...frames);
        kept.splice(0, kept.length - tail);
      }
      yield kept;
      if (!follow) return;
      asked.tail = undefined;
      if (told.last) asked.since = unixTime(told.last);
    }
    for (;;) {
      // Some engines tell whole seconds: the time alone does not say what was told.
      const resumed = told.last;
      let known = told.atLast;
      for await (const frames of once(source, asked, found)) {
        const fresh = frames.filter(({ time }) => time !== resumed || known-- <= 0);
        for (const frame of fresh) told.add(frame);
        yield fresh;
      }
      if (!follow) return;
      // The engine ends a followed log with the run of the container, now and then before its last lines.
      const rest = { ...asked, follow: false };
      if (told.last) Object.assign(rest, { tail: undefined, since: moved(told.last, -SECOND) });
      const lacks = told.lacking();
      for await (const frames of once(source, rest, found)) {
        const fresh = frames.filter(lacks);
        for (const frame of fresh) told.add(frame);
        yield fresh;
      }
      let now = await source.look();
      while (now && now.State.StartedAt === run && isActive(now)) {
        await sleep(LOOK_MS, signal);
        now = await source.look();
      }
      if (!now || now.State.StartedAt === run || (until && Date.now() > until.getTime())) return;
      run = now.State.StartedAt;
      asked.tail = undefined;
      if (told.last) asked.since = unixTime(told.last);
    }
  } catch (error) {
    if (signal?.aborted || error instanceof SvcError && error.code === "not_found") return;
    throw error;
  }
}
