/** Reads ahead of who reads a remote file from one end to the other, so that latency does not limit the speed. */

/** Bytes of one request, and of all that are asked for ahead of the reader: first and at most. */
const PART = 256 * 1024;
const FIRST = 512 * 1024;
const MOST = 8 << 20;
/** Bytes that are asked for together with the opening of a file: most files are smaller. */
export const WITH_OPEN = 64 * 1024;
/** Bytes that all files of a mount may hold. */
const BUDGET = 32 << 20;
/** Milliseconds for which bytes count as fresh. */
const FRESH_MS = 50;

interface Part {
  offset: number;
  size: number;
  bytes: Promise<Uint8Array | undefined>;
  /** When it came, by `performance.now()`. */
  came?: number;
}

/** What the files of a mount share. */
export class ReadAheads {
  #held = 0;
  #ofFile = new Map<bigint, Set<ReadAhead>>();

  /** Takes bytes of the budget. */
  take(bytes: number): boolean {
    if (this.#held + bytes > BUDGET) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }

  join(id: bigint, reader: ReadAhead): void {
    const all = this.#ofFile.get(id) ?? new Set();
    this.#ofFile.set(id, all.add(reader));
  }

  leave(id: bigint, reader: ReadAhead): void {
    const all = this.#ofFile.get(id);
    all?.delete(reader);
    if (all?.size === 0) this.#ofFile.delete(id);
  }

  /** The file has changed: nothing that was read before counts. */
  changed(id: bigint): void {
    for (const reader of this.#ofFile.get(id) ?? []) reader.drop();
  }
}

/** Of one open file. */
export class ReadAhead {
  #parts: Part[] = [];
  /** Offset after the last read. */
  #next = 0;
  #window = 0;
  /** The file's end is known: there is nothing ahead. */
  #atEnd = false;

  /** `ask`: some bytes at an offset, fewer only at the end of the file. */
  constructor(
    readonly all: ReadAheads,
    readonly id: bigint,
    readonly ask: (offset: number, size: number) => Promise<Uint8Array>,
  ) {
    all.join(id, this);
  }

  /** Fills `into`; returns fewer bytes only at the end of the file. */
  async read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    if (offset !== this.#next) this.drop();
    else if (offset > 0 || this.#window > 0) {
      this.#window = Math.min(this.#window * 2 || FIRST, MOST);
    }
    this.#next = offset + into.length;
    // Asked for before this waits, so that the line never falls silent.
    this.#askUpTo(this.#next + this.#window);
    let have = 0;
    while (have < into.length) {
      const size = into.length - have;
      const part = await this.#part(offset + have, size);
      const bytes = part ?? await this.ask(offset + have, size);
      into.set(bytes, have);
      have += bytes.length;
      if (bytes.length === 0 || !part) break;
    }
    if (have < into.length) this.drop();
    return have;
  }

  #askUpTo(end: number): void {
    if (this.#window === 0 || this.#atEnd) return;
    const last = this.#parts.at(-1);
    let at = Math.max(last ? last.offset + last.size : 0, this.#next);
    while (at < end && this.#add(at, PART, () => this.ask(at, PART))) at += PART;
  }

  /** The file's first bytes, that were asked for together with its opening. */
  begin(bytes: Promise<Uint8Array>): void {
    this.#add(0, WITH_OPEN, () => bytes);
  }

  /** False where the mount holds too much already. A part counts as {@linkcode PART} bytes, also a smaller one. */
  #add(offset: number, size: number, ask: () => Promise<Uint8Array>): boolean {
    if (!this.all.take(PART)) return false;
    const part: Part = { offset, size, bytes: Promise.resolve(undefined) };
    part.bytes = ask().then((bytes) => {
      part.came = performance.now();
      if (bytes.length < size) this.#atEnd = true;
      return bytes;
    }).catch(() => undefined);
    this.#parts.push(part);
    return true;
  }

  /** Bytes at an offset, up to `size`, of the part that has them; undefined where none has, or has no longer. */
  async #part(offset: number, size: number): Promise<Uint8Array | undefined> {
    const part = this.#parts.find((part) =>
      part.offset <= offset && offset < part.offset + part.size
    );
    const bytes = await part?.bytes;
    // Dropped meanwhile, or too old, or the file has grown since.
    if (!part || !bytes || !this.#parts.includes(part)) return undefined;
    if (performance.now() - part.came! > FRESH_MS) return void this.drop();
    // None where the file ends within the part.
    const found = bytes.subarray(offset - part.offset, offset - part.offset + size);
    const before = this.#parts.indexOf(part);
    const used = offset + found.length >= part.offset + part.size ? before + 1 : before;
    this.all.give(this.#parts.splice(0, used).length * PART);
    return found;
  }

  /** Forgets what was read ahead. */
  drop(): void {
    this.all.give(this.#parts.length * PART);
    this.#parts = [];
    this.#window = 0;
    this.#atEnd = false;
  }

  close(): void {
    this.drop();
    this.all.leave(this.id, this);
  }
}
