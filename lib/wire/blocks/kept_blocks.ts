/** What the files of a mount with `,async` share: the blocks that are kept, of all of its files. */
import { OPEN } from "../files/node.ts";
import type { NodeStat } from "../files/stat.ts";
import { Ahead } from "../ninep/remote_file.ts";
import { BlockBudget } from "./budget.ts";
import { KeptFile } from "./kept_file.ts";
import { type BlockOptions } from "./protocol.ts";

/** Requests that fetch ahead of reads at once: 8 MB. */
const MOST_AHEAD = 32;

export class KeptBlocks extends Ahead {
  readonly #files = new Map<bigint, KeptFile>();
  override readonly begins = true;
  #ahead = 0;
  #altered = 0;

  constructor(readonly options: BlockOptions, private readonly budget = new BlockBudget()) {
    super();
  }

  keptOf(id: bigint): KeptFile {
    const kept = this.#files.get(id) ?? new KeptFile(this.budget);
    this.#files.set(id, kept);
    return kept;
  }

  /** True where anything is known of the file. */
  keeps(id: bigint): boolean {
    return this.#files.has(id);
  }

  override sizeOf(id: bigint): number | undefined {
    const kept = this.#files.get(id);
    return kept?.valid ? kept.size : undefined;
  }

  /** One open file less. */
  closed(id: bigint): void {
    const kept = this.#files.get(id);
    if (kept?.empty && kept.open.size === 0) this.#files.delete(id);
  }

  mayFetch(): boolean {
    return this.#ahead < MOST_AHEAD;
  }

  /** Counts a request that fetches ahead. */
  fetches(one: Promise<void>): void {
    this.#ahead++;
    one.catch(() => {/* who reads asks again */}).finally(() => this.#ahead--);
  }

  /** Parts that are not written whole are read; what is appended goes where the end is known to be. */
  override flags(flags: number): number {
    const writes = (flags & OPEN.ACCESS) === OPEN.WRONLY;
    return (writes ? flags & ~OPEN.ACCESS | OPEN.RDWR : flags) & ~OPEN.APPEND;
  }

  override changed(id: bigint, resized = false): void {
    const kept = this.#files.get(id);
    if (resized) kept?.drop();
    kept?.expire();
  }

  override altered(): void {
    this.#altered++;
  }

  override async stat(id: bigint, ask: () => Promise<NodeStat>): Promise<NodeStat> {
    const kept = this.#files.get(id);
    const known = kept?.statNow(this.#altered);
    if (known) return known;
    await this.writes.settled(id);
    const altered = this.#altered;
    const stat = await ask();
    kept?.keepStat(stat, altered);
    return stat;
  }
}
