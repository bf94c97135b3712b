/**
 * What a mount with `,async` makes without waiting for the caller (ninep/begin.ts). Only where it is known to work but
 * for what nobody can know: in folders that are known, below names that are free, after another entry was made there.
 * Whoever closes or syncs the file is told where it could not be made after all.
 */
import { GIVEN } from "../files/given.ts";
import { TYPE_BITS } from "../files/node.ts";
import type { NodeKind, NodeStat } from "../files/stat.ts";

/** Calls under way, at most: further ones wait. */
const MOST = 256;
/** Files and folders of a mount whose numbers the caller remembers. */
const NUMBERS = 1_000_000;

/** A random number of 62 bits: the mounts of other places have others. */
function first(): bigint {
  const [word] = crypto.getRandomValues(new BigUint64Array(1));
  return GIVEN + (word >> 2n);
}

export class Behind {
  readonly #first = first();
  #given = 0;
  #underWay = 0;
  /** Folders in which the mount has made something, with the mode that they have. */
  readonly #proven = new Map<bigint, number | undefined>();
  /** What is being made, by folder and name: its number. */
  readonly #making = new Map<bigint, Map<string, bigint>>();

  /** `owner`: of all files of the export. */
  constructor(readonly owner: Pick<NodeStat, "uid" | "gid">) {}

  /** One more call may be under way. */
  get free(): boolean {
    return this.#underWay < MOST;
  }

  /** Whether entries can be made in the folder, as far as that can be known. */
  may(folder: bigint): boolean {
    return this.#proven.has(folder) && this.free && this.#given < NUMBERS;
  }

  proved(folder: bigint): void {
    if (!this.#proven.has(folder)) this.#proven.set(folder, undefined);
  }

  /** The folder's mode was told. */
  told(folder: bigint, mode: number): void {
    if (!this.#proven.has(folder)) return;
    if ((this.#proven.get(folder) ?? mode) === mode) this.#proven.set(folder, mode);
    else this.doubt(folder);
  }

  doubt(folder: bigint): void {
    this.#proven.delete(folder);
  }

  /** Attributes of something new: for the answer alone, since the caller has its own clock. */
  stat(kind: NodeKind, mode: number): NodeStat {
    const ms = Date.now();
    const now = { s: Math.floor(ms / 1000), ns: (ms % 1000) * 1e6 };
    const type = kind === "directory" ? TYPE_BITS.directory : TYPE_BITS.file;
    const times = { atime: now, mtime: now, ctime: now };
    const nlink = kind === "directory" ? 2 : 1;
    return {
      ...this.owner,
      ...times,
      mode: type | mode & 0o7777,
      nlink,
      size: 0,
      blocks: 0,
      guess: true,
    };
  }

  /** Counts a call that nobody waits for. */
  counted<R>(work: Promise<R>): Promise<R> {
    this.#underWay++;
    return work.finally(() => this.#underWay--);
  }

  /** A new number, for an entry that is being made. */
  make(folder: bigint, name: string): bigint {
    const number = this.#first + BigInt(this.#given++);
    const names = this.#making.get(folder) ?? new Map();
    this.#making.set(folder, names.set(name, number));
    return number;
  }

  /** It was made, or not. */
  over(folder: bigint, name: string): void {
    const names = this.#making.get(folder);
    names?.delete(name);
    if (names?.size === 0) this.#making.delete(folder);
  }

  /** Something is being made in the folder: what was told of its attributes is not true any more. */
  makesIn(folder: bigint): boolean {
    return this.#making.has(folder);
  }

  /** What is told of a name is older than what is being made: only that itself counts. */
  outdates(folder: bigint, name: string, id: bigint | undefined): boolean {
    const number = this.#making.get(folder)?.get(name);
    return number !== undefined && number !== id;
  }
}
