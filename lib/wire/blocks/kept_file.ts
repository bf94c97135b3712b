/**
 * What a mount keeps of one file: blocks of it, of which some parts are known, all of the same epoch (guards.ts).
 * Nothing here waits: block_file.ts asks and writes.
 *
 * Every change counts up. A part remembers the count of its last write, and an answer brings the count at which it
 * was asked for: it never replaces what was written since.
 */
import type { Block, BlockBudget } from "./budget.ts";
import { Carriers } from "./carriers.ts";
import { hashOf, type Proof, type Version } from "./protocol.ts";
import { FIRST_EPOCH } from "../files/given.ts";
import type { FileTime, NodeStat } from "../files/stat.ts";

/** Milliseconds for which attributes count, as in other mounts. */
const STAT_MS = 50;
/** Of reading ahead: milliseconds without a miss after which it begins anew, and parts that are fetched first. */
const IDLE_MS = 250;
const FIRST = 4;
/** Bytes of a part and of a block. */
export const PART = 4096;
const PARTS = 16;
export const BLOCK_SIZE = PART * PARTS;

/** When the caller was asked, for {@linkcode KeptFile.accept} and {@linkcode KeptFile.fill}. */
export interface Asked {
  count: number;
  wish: number;
  /** No write was under way. */
  quiet: boolean;
}

/** Numbers of the parts that a range of bytes touches. */
export function partsOf(offset: number, size: number): { first: number; end: number } {
  return { first: Math.floor(offset / PART), end: Math.ceil((offset + size) / PART) };
}

export class KeptFile {
  readonly #blocks = new Map<number, Block>();
  readonly carriers = new Carriers();
  #epoch: bigint | undefined;
  size = 0;
  #mtime: FileTime | undefined;
  /** As the caller told them last, when, and by which count of the mount's alterations. */
  #stat: { stat: NodeStat; at: number; altered: number } | undefined;
  #count = 0;
  /** Answers to what was asked before are of no use. */
  #since = 0;
  /** How often a look was wished for, and up to which of these wishes one has answered. */
  #wish = 0;
  #heard = -1;
  #heardAt = 0;
  /** Parts written since the last sync, with the proof of those that were dropped. */
  #dirty = new Map<number, Proof | undefined>();
  /** Writes under way. */
  pending = 0;
  /** Ranges that are being fetched, by part. */
  readonly fetching = new Map<number, Promise<void>>();
  /** The open files of it. */
  readonly open = new Set<{ refuse(): void }>();
  /** For reading ahead: when something was missing last, and how much is fetched. */
  #missedAt = 0;
  #window = 0;

  constructor(private readonly budget: BlockBudget) {}

  get epoch(): bigint {
    return this.#epoch ?? 0n;
  }

  /** True where nothing is kept. */
  get empty(): boolean {
    return this.#blocks.size === 0;
  }

  /** What the caller has said still counts, as far as nothing has happened here. */
  get valid(): boolean {
    return this.#epoch !== undefined && this.#heard === this.#wish;
  }

  /** Milliseconds since the caller was heard. */
  get age(): number {
    return performance.now() - this.#heardAt;
  }

  /** The file may have changed: whoever needs it looks first. */
  expire(): void {
    this.#wish++;
  }

  /** The mount has just made it: nothing is in it, and nobody else has changed it. */
  begin(): void {
    this.#epoch = FIRST_EPOCH;
    this.size = 0;
    this.#heard = this.#wish;
    this.#heardAt = performance.now();
  }

  asked(): Asked {
    return { count: this.#count, wish: this.#wish, quiet: this.pending === 0 };
  }

  /** Takes a version; false for one of an epoch that has passed. */
  accept(version: Version, { count, wish, quiet }: Asked): boolean {
    const { epoch, size } = version;
    if (this.#epoch !== undefined && epoch < this.#epoch) return false;
    if (epoch !== this.#epoch) {
      this.drop();
      this.#epoch = epoch;
      this.size = size;
    } else if (count === this.#count && quiet) this.size = size;
    this.#mtime = version.mtime;
    this.#heard = Math.max(this.#heard, wish);
    this.#heardAt = performance.now();
    return true;
  }

  /** Attributes that came while nothing was altered here. */
  keepStat(stat: NodeStat, altered: number): void {
    if (this.pending === 0) this.#stat = { stat, at: performance.now(), altered };
  }

  /** Attributes, as far as they are known without asking. */
  statNow(altered: number): NodeStat | undefined {
    const [kept, mtime] = [this.#stat, this.#mtime];
    if (!kept || !mtime || !this.valid || this.pending > 0 || kept.altered !== altered) return;
    const now = performance.now();
    if (now - kept.at > STAT_MS || now - this.#heardAt > STAT_MS) return;
    const { stat } = kept;
    if (stat.size !== this.size) return;
    const same = stat.mtime.s === mtime.s && stat.mtime.ns === mtime.ns;
    return same ? stat : { ...stat, mtime, ctime: mtime };
  }

  /** Forgets everything. What is under way is of no use. */
  drop(): void {
    for (const block of this.#blocks.values()) this.budget.forget(block);
    this.#blocks.clear();
    this.#dirty.clear();
    this.#epoch = undefined;
    this.#outdate();
  }

  #outdate(): void {
    this.#since = ++this.#count;
  }

  /** The first part of a range that is not known, from `first` on; undefined: all are. */
  missing(first: number, end: number): number | undefined {
    for (let part = first; part < end; part++) if (!this.knows(part)) return part;
  }

  knows(part: number): boolean {
    const block = this.#blocks.get(Math.floor(part / PARTS));
    return block !== undefined && (block.known & 1 << part % PARTS) !== 0;
  }

  /**
   * The parts around one that was missing that are fetched too, with `subfill`: more and more while reads go on
   * missing something. Undefined: nothing more than what is read. `most`: bytes.
   */
  rangeAhead(part: number, most: number): { first: number; end: number } | undefined {
    const now = performance.now();
    const again = now - this.#missedAt < IDLE_MS;
    this.#missedAt = now;
    const window = again ? Math.min(Math.max(FIRST, this.#window * 2), Math.floor(most / PART)) : 0;
    this.#window = window;
    if (window < 1) return undefined;
    const first = part - part % window;
    const end = Math.min(first + window, Math.ceil(this.size / PART));
    return end > first ? { first, end } : undefined;
  }

  /** Copies known bytes. */
  copy(offset: number, into: Uint8Array): void {
    for (let have = 0; have < into.length;) {
      const at = offset + have;
      const block = this.#blocks.get(Math.floor(at / BLOCK_SIZE))!;
      this.budget.touch(block);
      const from = at % BLOCK_SIZE;
      const part = block.bytes.subarray(from, Math.min(BLOCK_SIZE, from + into.length - have));
      into.set(part, have);
      have += part.length;
    }
  }

  #block(index: number): Block {
    const known = this.#blocks.get(index);
    if (known) {
      this.budget.touch(known);
      return known;
    }
    const bytes = new Uint8Array(BLOCK_SIZE);
    const block: Block = { index, bytes, known: 0, wrote: new Array(PARTS).fill(0) };
    this.#blocks.set(index, block);
    this.budget.add(block, () => this.#evict(block));
    return block;
  }

  #evict(block: Block): void {
    const from = block.index * PARTS;
    for (let part = from; part < from + PARTS; part++) {
      // One that was dropped before, and was not fetched since, has its proof already.
      if (this.#dirty.has(part) && this.knows(part)) this.#dirty.set(part, this.#proofOf(part, 1));
    }
    this.#blocks.delete(block.index);
    // The counts of its parts go with it.
    if (this.fetching.size > 0) this.#outdate();
  }

  /**
   * Takes bytes of the caller's from the start of a part on; they end with the file, or with a part. What was written
   * since they were asked for stays.
   */
  fill(first: number, bytes: Uint8Array, { epoch, size }: Version, { count }: Asked): void {
    if (epoch !== this.#epoch || count < this.#since) return;
    const end = first * PART + bytes.length;
    for (let part = first; part * PART < end; part++) {
      const start = part * PART;
      const have = bytes.subarray(start - first * PART, start - first * PART + PART);
      if (have.length < PART && end < size) return;
      const block = this.#block(Math.floor(part / PARTS));
      const at = part % PARTS;
      if (block.known & 1 << at || block.wrote[at] > count) continue;
      block.bytes.subarray(at * PART, (at + 1) * PART).fill(0).set(have);
      block.known |= 1 << at;
    }
  }

  /** Takes what is being written. `defers`: it is proved at the next sync. */
  write(offset: number, bytes: Uint8Array, defers: boolean): void {
    const count = ++this.#count;
    const before = this.size;
    const last = offset + bytes.length;
    this.size = Math.max(before, last);
    const { first, end } = partsOf(offset, bytes.length);
    for (let part = first; part < end; part++) {
      const [start, stop] = [part * PART, (part + 1) * PART];
      const block = this.#block(Math.floor(part / PARTS));
      const bit = 1 << part % PARTS;
      block.wrote[part % PARTS] = count;
      // What the write leaves out is behind the old end, so zero, or the part stays unknown.
      const whole = (offset <= start || before <= start) && (last >= stop || before <= last);
      if (!(block.known & bit) && whole) {
        const at = part % PARTS * PART;
        block.bytes.fill(0, at, at + PART);
        block.known |= bit;
      }
      if (block.known & bit) {
        const [from, to] = [Math.max(offset, start), Math.min(last, stop)];
        block.bytes.set(bytes.subarray(from - offset, to - offset), from % BLOCK_SIZE);
        if (defers) this.#dirty.set(part, undefined);
      } else this.#dirty.delete(part);
    }
  }

  /** The file ends at `size` from now on. */
  cut(size: number): void {
    for (const block of this.#blocks.values()) {
      const from = block.index * BLOCK_SIZE;
      if (from + BLOCK_SIZE <= size) continue;
      if (from >= size) {
        this.#blocks.delete(block.index);
        this.budget.forget(block);
      } else {
        block.bytes.fill(0, size - from);
        block.known &= (1 << Math.ceil((size - from) / PART)) - 1;
      }
    }
    for (const part of this.#dirty.keys()) if ((part + 1) * PART > size) this.#dirty.delete(part);
    this.size = size;
    this.#outdate();
  }

  #proofOf(first: number, count: number): Proof | undefined {
    const offset = first * PART;
    const length = Math.min(count * PART, this.size - offset);
    if (length <= 0) return undefined;
    const { bytes } = this.#blocks.get(Math.floor(first / PARTS))!;
    const at = offset % BLOCK_SIZE;
    return { offset, length, hash: hashOf(bytes.subarray(at, at + length)) };
  }

  /** Proofs of what is known of these parts; `whole`: of their whole blocks, where these are known. */
  #proofs(parts: Iterable<number>, whole: boolean): Proof[] {
    const proofs: (Proof | undefined)[] = [];
    let done = -1;
    for (const part of parts) {
      const index = Math.floor(part / PARTS);
      if (index === done || !this.knows(part)) continue;
      const count = Math.min(PARTS, Math.ceil((this.size - index * BLOCK_SIZE) / PART));
      const all = whole && count > 0 &&
        this.missing(index * PARTS, index * PARTS + count) === undefined;
      if (all) done = index;
      proofs.push(all ? this.#proofOf(index * PARTS, count) : this.#proofOf(part, 1));
    }
    return proofs.filter((proof) => proof !== undefined);
  }

  /** What a write to this range builds on, as it is known here. */
  base(offset: number, size: number, whole: boolean): Proof[] {
    const { first, end } = partsOf(offset, size);
    return this.#proofs(Array.from({ length: end - first }, (_, n) => first + n), whole);
  }

  /** What was written since the last time, as it has to be in the file. */
  written(whole: boolean): Proof[] {
    const parts = [...this.#dirty.keys()].sort((a, b) => a - b);
    const dropped = [...this.#dirty.values()].filter((proof) => proof !== undefined);
    this.#dirty.clear();
    return [...dropped, ...this.#proofs(parts, whole)];
  }
}
