/**
 * Cuts an archive into blocks that are packed independently: several threads can pack them, and a known block
 * is not packed again. The cuts depend only on the archive's bytes. A large content begins a block of its
 * own, and between small entries certain headers begin one, so that a change in one place does not change the
 * blocks elsewhere.
 */
import { createHash } from "node:crypto";
import { SvcError } from "../base/errors.ts";
import { BLOCK, padding } from "./tar.ts";
import { numberField, verifyChecksum } from "./tar_fields.ts";
import type { Digest } from "./types.ts";

export interface ArchiveBlock {
  kind: "block";
  /** The block's bytes, in a buffer of their own. */
  bytes: Uint8Array<ArrayBuffer>;
  /** sha256 in hex. */
  digest: string;
}

/** The archive's digest, after its last block. */
export interface ArchiveEnd {
  kind: "end";
  diffID: Digest;
}

export type ArchivePart = ArchiveBlock | ArchiveEnd;

/** Largest block, in bytes. */
export const MAX_BLOCK = 1 << 20;
/** Smallest content, in bytes, that begins a block of its own. */
const LARGE = 256 * 1024;
/**
 * Blocks of small entries: never cut below LEAST; from LEAST on cut at one header in ONE_IN; from MOST on cut
 * at any header.
 */
const LEAST = 256 * 1024;
const ONE_IN = 16;
const MOST = 768 * 1024;

/** Entries of these types have no content, whatever their size says. */
const LINK = 0x31;
const FIFO = 0x36;

export class BlockCutter {
  #buffer = new Uint8Array(MAX_BLOCK);
  #used = 0;
  /** Bytes of content and padding still to come before the next header. */
  #left = 0;
  /** The current content has blocks of its own. */
  #large = false;
  /** A header was expected and not found: the end of the archive, or no archive at all. */
  #lost = false;
  #hash = createHash("sha256");

  /** Takes a chunk and yields the blocks that it completes. */
  *push(chunk: Uint8Array): Generator<ArchiveBlock> {
    this.#hash.update(chunk);
    for (let at = 0; at < chunk.length;) {
      if (this.#used === MAX_BLOCK) yield this.#cut(MAX_BLOCK);
      const header = this.#left === 0 && !this.#lost;
      // A header is never split between blocks.
      if (header && this.#used + BLOCK - this.#seen > MAX_BLOCK) yield this.#cut(this.#used);
      const wanted = header ? BLOCK - this.#seen : this.#lost ? Infinity : this.#left;
      const take = Math.min(wanted, chunk.length - at, MAX_BLOCK - this.#used);
      this.#buffer.set(chunk.subarray(at, at + take), this.#used);
      this.#used += take;
      at += take;
      if (header) {
        this.#seen += take;
        if (this.#seen === BLOCK) yield* this.#header();
      } else if (!this.#lost) {
        this.#left -= take;
        if (this.#left > 0 || !this.#large) continue;
        this.#large = false;
        yield this.#cut(this.#used);
      }
    }
  }

  /** Bytes received of the current header. */
  #seen = 0;

  *#header(): Generator<ArchiveBlock> {
    this.#seen = 0;
    const start = this.#used - BLOCK;
    const header = this.#buffer.subarray(start, this.#used);
    const size = contentSize(header);
    if (size === undefined) {
      this.#lost = true;
      return;
    }
    this.#left = size + padding(size);
    const marked = numberField(header, 148, 8, "checksum") % ONE_IN === 0;
    if (start >= MOST || start >= LEAST && marked) yield this.#cut(start);
    if (size < LARGE) return;
    this.#large = true;
    yield this.#cut(this.#used);
  }

  /** Yields the last block, and the digest of the archive. */
  *finish(): Generator<ArchivePart> {
    if (this.#used > 0) yield this.#cut(this.#used);
    yield { kind: "end", diffID: `sha256:${this.#hash.digest("hex")}` };
  }

  #cut(size: number): ArchiveBlock {
    let bytes = this.#buffer;
    if (size === MAX_BLOCK) this.#buffer = new Uint8Array(MAX_BLOCK);
    else {
      bytes = bytes.slice(0, size);
      this.#buffer.copyWithin(0, size, this.#used);
    }
    this.#used -= size;
    return { kind: "block", bytes, digest: createHash("sha256").update(bytes).digest("hex") };
  }
}

/** Bytes of content after a header; undefined where the block is not a header. */
function contentSize(header: Uint8Array): number | undefined {
  try {
    verifyChecksum(header);
    if (header[156] >= LINK && header[156] <= FIFO) return 0;
    const size = numberField(header, 124, 12, "size");
    return size < 0 ? undefined : size;
  } catch (error) {
    if (error instanceof SvcError) return undefined;
    throw error;
  }
}

/** Bytes that are hashed at once. */
const SLICE = 256 * 1024;

/** Cuts a streamed archive into blocks. */
export async function* blocksOf(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ArchivePart, void, void> {
  const cutter = new BlockCutter();
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += SLICE) {
      yield* cutter.push(chunk.subarray(at, at + SLICE));
    }
  }
  yield* cutter.finish();
}
