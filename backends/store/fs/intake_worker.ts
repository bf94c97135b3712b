/**
 * Uploads taken from their connections into files, and hashed, in a thread of their own: at the speed of
 * the disk, while the event loop answers everybody else. Several at once, a piece of each in turn.
 */
/// <reference lib="deno.worker" />
import { createHash, type Hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { ChunkedDecoder, ChunkedError } from "../../../lib/base/chunked.ts";
import type { DigestAlgorithm } from "../../../lib/oci/digest.ts";
import { SystemError } from "../../../lib/sys/errno.ts";
import * as fd from "../../../lib/sys/fd.ts";
import { O } from "../../../lib/sys/files.ts";
import { Readiness, receive as receiveFrom } from "../../../lib/sys/readiness.ts";
import type { Ask, DigestJob, Outcome, ReceiveJob, Tell } from "./intake_wire.ts";

const PIECE = 1024 * 1024;
/** Written bytes are sent to the disk in such stretches, so that little is left for the sync at the end. */
const WRITEBACK = 16 * 1024 * 1024;
const TELL_MS = 250;

/** The hash of a file's first `size` bytes. */
interface FileHash {
  algorithm: DigestAlgorithm;
  hash: Hash;
  size: number;
}

const scope = self as unknown as DedicatedWorkerGlobalScope;
const tell = (message: Tell) => scope.postMessage(message);
const readiness = new Readiness();
const hashes = new Map<string, FileHash>();
const running = new Map<number, Receiving>();
// Used between two waits only.
const buffer = new Uint8Array(PIECE);

async function hashOf(path: string, size: number, algorithm: DigestAlgorithm): Promise<FileHash> {
  const known = hashes.get(path);
  if (known && known.algorithm === algorithm && known.size === size) return known;
  const made = { algorithm, hash: createHash(algorithm), size: 0 };
  if (size > 0) {
    const file = fd.open(path, O.RDONLY);
    try {
      while (made.size < size) {
        const part = buffer.subarray(0, Math.min(PIECE, size - made.size));
        const got = fd.read(file, part, path);
        if (got === 0) throw new Error(`${path} ends ${size - made.size} bytes early`);
        made.hash.update(part.subarray(0, got));
        made.size += got;
        await setImmediate();
      }
    } finally {
      fd.close(file);
    }
  }
  hashes.set(path, made);
  return made;
}

class Receiving {
  stopped = false;
  #written = 0;
  #synced = 0;
  #file = -1;
  #hash!: FileHash;
  #decoder: ChunkedDecoder | undefined;
  /** Bytes that came off the connection, in their framing. */
  #read = 0;
  #untold = 0;
  #told = performance.now();

  constructor(private readonly job: ReceiveJob) {
    if (job.length === undefined) this.#decoder = new ChunkedDecoder();
  }

  async run(): Promise<void> {
    const { job, path, offset, algorithm } = this.job;
    let outcome: Outcome;
    try {
      this.#hash = await hashOf(path, offset, algorithm);
      this.#file = fd.open(path, O.WRONLY);
      fd.seek(this.#file, offset, path);
      this.#synced = offset;
      outcome = await this.#receive();
    } catch (error) {
      hashes.delete(path);
      outcome = error instanceof SystemError
        ? { how: "failed", errno: error.errno, message: error.message }
        : { how: "failed", errno: 0, message: (error as Error).message };
    }
    if (this.#file >= 0) fd.close(this.#file);
    readiness.forget(this.job.socket);
    this.#tellMoved();
    tell({ type: "received", job, written: this.#written, outcome });
  }

  stop(): void {
    this.stopped = true;
    readiness.forget(this.job.socket);
  }

  async #receive(): Promise<Outcome> {
    const { prefix, socket } = this.job;
    let ended = this.#take(prefix);
    while (!ended) {
      if (this.stopped) return { how: "stopped" };
      const room = this.#decoder ? PIECE : Math.min(PIECE, this.job.length! - this.#read);
      let got: number | undefined;
      try {
        got = receiveFrom(socket, buffer.subarray(0, room));
      } catch {
        return { how: "broken" };
      }
      if (got === 0) return { how: "broken" };
      if (got === undefined) {
        // Broken, too, it is read from once more: bytes may have come before.
        await readiness.wait(socket, "read");
        continue;
      }
      ended = this.#take(buffer.subarray(0, got));
      if (!ended) await setImmediate();
    }
    return ended;
  }

  /** Takes bytes in their framing; the outcome, where they are the last. */
  #take(bytes: Uint8Array): Outcome | undefined {
    const { length } = this.job;
    this.#untold += bytes.length;
    if (performance.now() - this.#told > TELL_MS) this.#tellMoved();
    let surplus = false;
    const write = (start: number, end: number) => {
      const room = this.job.limit - this.#written;
      if (end - start > room) surplus = true;
      this.#write(bytes.subarray(start, Math.min(end, start + room)));
    };
    let end: number | undefined;
    if (this.#decoder) {
      try {
        end = this.#decoder.feed(bytes, write);
      } catch (error) {
        if (error instanceof ChunkedError) return { how: "malformed" };
        throw error;
      }
    } else {
      const part = Math.min(bytes.length, length! - this.#read);
      if (part > 0) write(0, part);
      if (this.#read + part === length) end = part;
    }
    this.#read += bytes.length;
    if (surplus) return { how: "too long" };
    return end === undefined ? undefined : { how: "whole", rest: bytes.slice(end) };
  }

  #write(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    fd.writeAll(this.#file, bytes, this.job.path);
    this.#hash.hash.update(bytes);
    this.#hash.size += bytes.length;
    this.#written += bytes.length;
    const end = this.job.offset + this.#written;
    if (end - this.#synced < WRITEBACK) return;
    fd.startWriteback(this.#file, this.#synced, end - this.#synced);
    this.#synced = end;
  }

  #tellMoved(): void {
    if (this.#untold > 0) tell({ type: "moved", job: this.job.job, bytes: this.#untold });
    this.#untold = 0;
    this.#told = performance.now();
  }
}

async function receive(job: ReceiveJob): Promise<void> {
  const receiving = new Receiving(job);
  running.set(job.job, receiving);
  await receiving.run();
  running.delete(job.job);
}

async function digest({ job, path, size, algorithm }: DigestJob): Promise<void> {
  try {
    const { hash } = await hashOf(path, size, algorithm);
    tell({ type: "digest", job, digest: `${algorithm}:${hash.copy().digest("hex")}` });
  } catch (error) {
    tell({ type: "failed", job, message: (error as Error).message });
  }
}

scope.onmessage = ({ data }: MessageEvent<Ask>) => {
  switch (data.type) {
    case "receive":
      return void receive(data);
    case "digest":
      return void digest(data);
    case "forget":
      return void hashes.delete(data.path);
    case "stop":
      running.get(data.job)?.stop();
  }
};
