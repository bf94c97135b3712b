/**
 * What is kept of one file: chunks at their own places in a sparse file, and an index beside it. A record of the
 * index names a chunk with its length and SHA-256, and is written after the chunk. Each chunk is compared with its
 * record before it is used, once by each process, so a record never counts whose bytes are not there: not after a
 * crash at any moment, and not after a power cut, whatever of the two reached the disk.
 *
 * Several processes may keep the same file at once: records are appended, each whole, and the bytes are the same.
 */
import { type FileHandle, open, utimes } from "node:fs/promises";
import { createHash } from "../../base/hash.ts";

/** Bytes of a record: number, length, SHA-256 of the chunk, and the first 4 bytes of the SHA-256 of these. */
const RECORD = 8 + 4 + 32 + 4;
const SUMMED = RECORD - 4;

interface Chunk {
  length: number;
  hash: Uint8Array;
  /** The bytes were compared with the hash, or are being compared. */
  checked?: Promise<boolean>;
}

const hashOf = (bytes: Uint8Array) => new Uint8Array(createHash("sha256").update(bytes).digest());
const equal = (a: Uint8Array, b: Uint8Array) => a.every((byte, index) => byte === b[index]);

function record(number: number, { length, hash }: Chunk): Uint8Array {
  const bytes = new Uint8Array(RECORD);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(number));
  view.setUint32(8, length);
  bytes.set(hash, 12);
  bytes.set(hashOf(bytes.subarray(0, SUMMED)).subarray(0, 4), SUMMED);
  return bytes;
}

function readRecords(index: Uint8Array, chunkSize: number): Map<number, Chunk> {
  const chunks = new Map<number, Chunk>();
  for (let at = 0; at + RECORD <= index.length; at += RECORD) {
    const bytes = index.subarray(at, at + RECORD);
    if (!equal(hashOf(bytes.subarray(0, SUMMED)).subarray(0, 4), bytes.subarray(SUMMED))) continue;
    const view = new DataView(bytes.buffer, bytes.byteOffset, RECORD);
    const length = view.getUint32(8);
    if (length > chunkSize) continue;
    chunks.set(Number(view.getBigUint64(0)), { length, hash: bytes.slice(12, 44) });
  }
  return chunks;
}

export const DATA = ".data";
export const INDEX = ".index";

export class Content {
  #full = false;

  private constructor(
    private readonly data: FileHandle,
    private readonly index: FileHandle,
    private readonly chunks: Map<number, Chunk>,
    private readonly chunkSize: number,
  ) {}

  /** Opens or begins what is kept at `path` with the endings. Throws the system's errors. */
  static async open(path: string, chunkSize: number): Promise<Content> {
    const data = await open(path + DATA, "a+", 0o600).then(async (made) => {
      await made.close();
      return await open(path + DATA, "r+");
    });
    try {
      const index = await open(path + INDEX, "a+", 0o600);
      try {
        const now = new Date();
        await utimes(path + INDEX, now, now);
        let bytes = new Uint8Array(await index.readFile());
        // Cut off within a record by a crash of the machine: later records would be out of place.
        if (bytes.length % RECORD !== 0) {
          await index.truncate(0);
          bytes = new Uint8Array(0);
        }
        return new Content(data, index, readRecords(bytes, chunkSize), chunkSize);
      } catch (error) {
        await index.close();
        throw error;
      }
    } catch (error) {
      await data.close();
      throw error;
    }
  }

  /** Bytes of a chunk from an offset in it on; undefined where it is not kept. */
  async read(number: number, offset: number, into: Uint8Array): Promise<number | undefined> {
    const chunk = this.chunks.get(number);
    if (!chunk) return undefined;
    const good = await (chunk.checked ??= this.#check(number, chunk));
    if (!good) {
      if (this.chunks.get(number) === chunk) this.chunks.delete(number);
      return undefined;
    }
    const size = Math.max(0, Math.min(into.length, chunk.length - offset));
    const got = await this.#fill(number * this.chunkSize + offset, into.subarray(0, size));
    return got === size ? size : undefined;
  }

  async #check(number: number, { length, hash }: Chunk): Promise<boolean> {
    const bytes = new Uint8Array(length);
    const got = await this.#fill(number * this.chunkSize, bytes).catch(() => -1);
    return got === length && equal(hashOf(bytes), hash);
  }

  async #fill(at: number, into: Uint8Array): Promise<number> {
    let have = 0;
    while (have < into.length) {
      const { bytesRead } = await this.data.read(into, have, into.length - have, at + have);
      if (bytesRead === 0) break;
      have += bytesRead;
    }
    return have;
  }

  /** Keeps a chunk. Does nothing once the disk is full. Never throws. */
  async put(number: number, bytes: Uint8Array): Promise<void> {
    if (this.#full) return;
    const chunk: Chunk = {
      length: bytes.length,
      hash: hashOf(bytes),
      checked: Promise.resolve(true),
    };
    try {
      for (let done = 0; done < bytes.length;) {
        const at = number * this.chunkSize + done;
        const { bytesWritten } = await this.data.write(bytes, done, bytes.length - done, at);
        done += bytesWritten;
      }
      await this.index.write(record(number, chunk));
      this.chunks.set(number, chunk);
    } catch {
      this.#full = true;
    }
  }

  async close(): Promise<void> {
    await this.data.close();
    await this.index.close();
  }
}
