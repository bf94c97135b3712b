/**
 * Receives uploads from their connections into files and hashes them, in a thread of its own: at the speed of
 * the disk, while the event loop answers other requests. Several uploads take turns, a piece each.
 */
/// <reference lib="deno.worker" />
import { createHash, type Hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { ChunkedDecoder, ChunkedError } from "../../../lib/base/chunked.ts";
import type { DigestAlgorithm } from "../../../lib/oci/digest.ts";
import { SystemError } from "../../../lib/sys/errno.ts";
import * as fd from "../../../lib/sys/fd.ts";
import { Block } from "../../../lib/sys/fd.ts";
import { O } from "../../../lib/sys/files.ts";
import { Readiness, receive as receiveFrom } from "../../../lib/sys/readiness.ts";
import type { Ask, DigestJob, Outcome, ReceiveJob, Tell } from "./intake_wire.ts";

const PIECE = 1024 * 1024;
/** Pieces under way at once, of all uploads together. */
const PIECES = 16;
/** Written bytes are flushed in stretches of this size, so that little is left for the final sync. */
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

/** Free blocks, made as needed up to a limit; beyond it callers wait for one. */
const blocks = {
  free: [] as Block[],
  made: 0,
  waiting: [] as ((block: Block) => void)[],
  take(): Block | Promise<Block> {
    const block = this.free.pop();
    if (block) return block;
    if (this.made < PIECES) {
      this.made++;
      return new Block(PIECE);
    }
    return new Promise((resolve) => this.waiting.push(resolve));
  },
  give(block: Block): void {
    const next = this.waiting.shift();
    if (next) next(block);
    else this.free.push(block);
  },
};

async function hashOf(path: string, size: number, algorithm: DigestAlgorithm): Promise<FileHash> {
  const known = hashes.get(path);
  if (known && known.algorithm === algorithm && known.size === size) return known;
  const made = { algorithm, hash: createHash(algorithm), size: 0 };
  if (size > 0) {
    const file = fd.open(path, O.RDONLY);
    const block = await blocks.take();
    try {
      while (made.size < size) {
        const part = block.bytes.subarray(0, Math.min(PIECE, size - made.size));
        const got = fd.read(file, part, path);
        if (got === 0) throw new Error(`${path} ends ${size - made.size} bytes early`);
        made.hash.update(part.subarray(0, got));
        made.size += got;
        await setImmediate();
      }
    } finally {
      blocks.give(block);
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
  /** Bytes that came off the connection, with their framing. */
  #came = 0;
  #unframed = 0;
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
    // Another thread writes a piece while this one hashes it.
    let writing: Promise<void> = Promise.resolve();
    try {
      let ended = await this.#first(prefix);
      while (!ended) {
        if (this.stopped) return { how: "stopped" };
        const block = await blocks.take();
        const got = this.#read(block.bytes);
        if (got === undefined || got === 0) {
          blocks.give(block);
          if (got === 0) return { how: "broken" };
          // A broken connection is read once more: bytes may have come before the break.
          await readiness.wait(socket, "read");
          continue;
        }
        const { size, outcome } = this.#unframe(block.bytes.subarray(0, got));
        ended = outcome;
        try {
          await writing;
        } catch (error) {
          blocks.give(block);
          throw error;
        }
        writing = this.#write(block, size);
        // Awaited by the next turn or below; marked so that it never counts as unhandled before.
        writing.catch(() => {});
        this.#hash.hash.update(block.bytes.subarray(0, size));
        this.#hash.size += size;
      }
      return ended;
    } finally {
      await writing;
    }
  }

  /** Takes the bytes that came with the head. */
  async #first(prefix: Uint8Array): Promise<Outcome | undefined> {
    const block = await blocks.take();
    block.bytes.set(prefix);
    const { size, outcome } = this.#unframe(block.bytes.subarray(0, prefix.length));
    this.#hash.hash.update(block.bytes.subarray(0, size));
    this.#hash.size += size;
    await this.#write(block, size);
    return outcome;
  }

  /** 0 where the connection has ended or broken. */
  #read(bytes: Uint8Array<ArrayBuffer>): number | undefined {
    const room = this.#decoder
      ? bytes.length
      : Math.min(bytes.length, this.job.length! - this.#came);
    try {
      return receiveFrom(this.job.socket, bytes.subarray(0, room));
    } catch {
      return 0;
    }
  }

  /**
   * Moves the body's bytes to the front of `bytes`. Returns their number, and the outcome where the body ends
   * here.
   */
  #unframe(bytes: Uint8Array): { size: number; outcome?: Outcome } {
    const { length, limit } = this.job;
    let size = 0;
    let end: number | undefined;
    if (this.#decoder) {
      // The rest lies behind the body's end, where nothing is moved.
      try {
        end = this.#decoder.feed(bytes, (start, stop) => {
          bytes.copyWithin(size, start, stop);
          size += stop - start;
        });
      } catch (error) {
        if (error instanceof ChunkedError) return { size, outcome: { how: "malformed" } };
        throw error;
      }
    } else {
      size = Math.min(bytes.length, length! - this.#came);
      if (this.#came + size === length) end = size;
    }
    this.#came += bytes.length;
    this.#untold += size;
    if (performance.now() - this.#told > TELL_MS) this.#tellMoved();
    const room = limit - this.#unframed;
    this.#unframed += size;
    if (size > room) return { size: room, outcome: { how: "too long" } };
    return end === undefined
      ? { size }
      : { size, outcome: { how: "whole", rest: bytes.slice(end) } };
  }

  /** Takes over the block. */
  async #write(block: Block, size: number): Promise<void> {
    try {
      if (size > 0) await block.writeTo(this.#file, size, this.job.path);
      this.#written += size;
    } finally {
      blocks.give(block);
    }
    const end = this.job.offset + this.#written;
    if (end - this.#synced < WRITEBACK) return;
    void fd.startWriteback(this.#file, this.#synced, end - this.#synced);
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
