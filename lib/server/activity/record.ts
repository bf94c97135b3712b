/**
 * The flight record on disk: JSON lines in `activity`, and one generation before it in `activity.1`.
 * Requests only leave an entry in memory; it is written a moment later, many at once.
 */
import { Buffer } from "node:buffer";
import { join } from "node:path";
import type { ActivityEntry } from "../../api/activity.ts";
import { asSvcError, SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Mutex } from "../../base/mutex.ts";
import { alikeKey, type Answered, entryOf } from "./entry.ts";

export interface RecordOptions {
  /** The data directory. */
  dataDir: string;
  /** SVC_ACTIVITY_MAX_BYTES, of each of the two generations. */
  maxBytes: number;
  log: Logger;
  /** Milliseconds until an entry is on its way to the disk. */
  delayMs?: number;
}

const FILE = "activity";

/** Different entries that may wait in memory. When so many wait, they are written at once. */
const MOST_PENDING = 4096;

/** Entries that may wait for a follower. A follower that is further behind is dropped. */
const MOST_BEHIND = 65_536;

const encoder = new TextEncoder();

class Follower {
  readonly queue: ActivityEntry[] = [];
  wake: (() => void) | undefined;
  lost = false;

  push(entries: readonly ActivityEntry[]): void {
    if (this.queue.length + entries.length > MOST_BEHIND) this.lost = true;
    else this.queue.push(...entries);
    this.wake?.();
  }
}

export class ActivityRecord implements AsyncDisposable {
  readonly #path: string;
  readonly #options: Required<RecordOptions>;
  readonly #disk = new Mutex();
  readonly #followers = new Set<Follower>();
  #pending = new Map<string, ActivityEntry>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #file: Deno.FsFile | undefined;
  #size = 0;
  #failing = false;

  constructor(options: RecordOptions) {
    this.#options = { delayMs: 250, ...options };
    this.#path = join(options.dataDir, FILE);
  }

  /** Adds the entry of an answered request. Costs a look-up in memory; never throws. */
  readonly note = (answered: Answered): void => {
    const entry = entryOf(answered);
    if (entry) this.add(entry);
  };

  add(entry: Omit<ActivityEntry, "time">): void {
    const key = alikeKey(entry);
    const before = this.#pending.get(key);
    if (before) {
      before.count = (before.count ?? 1) + 1;
      before.bytes += entry.bytes;
      if (entry.received !== undefined) before.received = (before.received ?? 0) + entry.received;
      before.durationMs = Math.round((before.durationMs + entry.durationMs) * 10) / 10;
      return;
    }
    this.#pending.set(key, { time: new Date().toISOString(), ...entry });
    if (this.#pending.size >= MOST_PENDING) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), this.#options.delayMs);
  }

  /** Resolves when all earlier entries are in the file, or could not be written. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#disk.run(() => this.#write());
  }

  /** The caller holds the lock of the files. A full disk costs entries, not requests. */
  async #write(): Promise<void> {
    const entries = [...this.#pending.values()];
    if (entries.length === 0) return;
    this.#pending = new Map();
    for (const follower of this.#followers) follower.push(entries);
    try {
      await this.#append(entries.map((entry) => encoder.encode(`${JSON.stringify(entry)}\n`)));
      this.#failing = false;
    } catch (error) {
      this.#file?.close();
      this.#file = undefined;
      if (!this.#failing) {
        this.#options.log.error("cannot write the flight record", { error: asSvcError(error) });
      }
      this.#failing = true;
    }
  }

  /** Writes many lines at once. A generation never exceeds its size: a line that does not fit begins a new one. */
  async #append(lines: readonly Uint8Array[]): Promise<void> {
    await this.#open();
    let piece: Uint8Array[] = [];
    let size = this.#size;
    for (const line of lines) {
      if (size > 0 && size + line.length > this.#options.maxBytes) {
        await this.#writeOut(piece);
        await this.#turn();
        piece = [];
        size = 0;
      }
      piece.push(line);
      size += line.length;
    }
    await this.#writeOut(piece);
  }

  async #writeOut(lines: readonly Uint8Array[]): Promise<void> {
    const file = await this.#open();
    const bytes = Buffer.concat(lines);
    for (let at = 0; at < bytes.length;) {
      const written = await file.write(bytes.subarray(at));
      at += written;
      this.#size += written;
    }
  }

  /** The current file becomes the earlier generation. */
  async #turn(): Promise<void> {
    const file = await this.#open();
    await file.sync();
    file.close();
    this.#file = undefined;
    await Deno.rename(this.#path, `${this.#path}.1`);
    this.#size = 0;
  }

  async #open(): Promise<Deno.FsFile> {
    if (this.#file) return this.#file;
    const file = await Deno.open(this.#path, {
      read: true,
      write: true,
      create: true,
      mode: 0o600,
    });
    // A crash may have left half a line: the next entry begins on a new line.
    this.#size = await file.seek(0, Deno.SeekMode.End);
    this.#file = file;
    if (this.#size > 0) {
      const last = new Uint8Array(1);
      await file.seek(-1, Deno.SeekMode.End);
      await file.read(last);
      if (last[0] !== 10) this.#size += await file.write(encoder.encode("\n"));
    }
    return file;
  }

  /**
   * Entries, oldest first: all of them, or the last `tail`. With `follow` the generator goes on until `signal`
   * aborts; a reader that falls far behind gets `unavailable`.
   */
  async *read({ follow = false, tail, signal }: ReadOptions): AsyncGenerator<ActivityEntry> {
    const follower = new Follower();
    // Nothing is written under the lock: no entry is lost or repeated between the files and the followed
    // entries.
    const files = await this.#disk.run(async () => {
      await this.#write();
      if (follow) this.#followers.add(follower);
      return await snapshot([`${this.#path}.1`, this.#path]);
    });
    const wake = () => follower.wake?.();
    signal.addEventListener("abort", wake);
    try {
      if (tail === undefined) { for (const file of files) yield* lines(file); }
      else yield* await lastOf(files, tail);
      while (follow && !signal.aborted) {
        if (follower.lost) {
          throw new SvcError("unavailable", "Cannot follow the activity: the reader is too slow");
        }
        const next = follower.queue.shift();
        if (next) yield next;
        else await new Promise<void>((resolve) => follower.wake = resolve);
      }
    } finally {
      signal.removeEventListener("abort", wake);
      this.#followers.delete(follower);
      for (const { file } of files) file.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
    await this.#disk.run(async () => {
      await this.#file?.sync().catch(() => {/* it could not be written either */});
      this.#file?.close();
      this.#file = undefined;
    });
  }
}

export interface ReadOptions {
  follow?: boolean;
  tail?: number;
  signal: AbortSignal;
}

async function lastOf(files: readonly Piece[], count: number): Promise<ActivityEntry[]> {
  let last: ActivityEntry[] = [];
  const trim = () => last = count === 0 ? [] : last.slice(-count);
  for (const file of files) {
    for await (const entry of lines(file)) {
      if (last.push(entry) >= 2 * count + 1024) trim();
    }
  }
  return trim();
}

interface Piece {
  file: Deno.FsFile;
  size: number;
}

async function snapshot(paths: string[]): Promise<Piece[]> {
  const pieces: Piece[] = [];
  for (const path of paths) {
    try {
      const file = await Deno.open(path);
      pieces.push({ file, size: (await file.stat()).size });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return pieces;
}

/** A last line that a crash cut off is left out. */
async function* lines({ file, size }: Piece): AsyncGenerator<ActivityEntry> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(64 * 1024);
  let rest = "";
  for (let left = size; left > 0;) {
    const count = await file.read(buffer.subarray(0, Math.min(buffer.length, left)));
    if (count === null) break;
    left -= count;
    const parts = (rest + decoder.decode(buffer.subarray(0, count), { stream: true })).split("\n");
    rest = parts.pop()!;
    for (const part of parts) {
      const entry = parse(part);
      if (entry) yield entry;
    }
  }
}

function parse(line: string): ActivityEntry | undefined {
  try {
    return JSON.parse(line) as ActivityEntry;
  } catch {
    return undefined;
  }
}
