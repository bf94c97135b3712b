/** What the files of a mount with `,async` share: the blocks that are kept, of all of its files. */
import { type NodeStat, OPEN } from "../files/node.ts";
import type { NinepClient } from "../ninep/client.ts";
import { Ahead, type Opening } from "../ninep/remote_file.ts";
import { BlockFile } from "./block_file.ts";
import { BlockBudget } from "./budget.ts";
import { type Asked, KeptFile } from "./kept_file.ts";
import type { BlockOptions } from "./options.ts";
import { BLOCK, putProofs, readVersion, type Version } from "./protocol.ts";

/** Requests that fetch ahead of reads at once: 8 MB. */
const MOST_AHEAD = 32;

export class AheadBlocks extends Ahead {
  readonly options: BlockOptions;
  readonly #budget: BlockBudget;
  readonly #files = new Map<bigint, KeptFile>();
  readonly #open = new Map<bigint, number>();
  /** Open files with writes under way, and how many. */
  readonly #under = new Map<bigint, Map<BlockFile, number>>();
  #ahead = 0;
  #altered = 0;

  constructor(options: BlockOptions, budget = new BlockBudget()) {
    super();
    this.options = options;
    this.#budget = budget;
  }

  keptOf(id: bigint): KeptFile {
    this.#open.set(id, (this.#open.get(id) ?? 0) + 1);
    return this.#peek(id);
  }

  closed(id: bigint): void {
    const open = this.#open.get(id)! - 1;
    if (open > 0) return void this.#open.set(id, open);
    this.#open.delete(id);
    if (this.#files.get(id)?.empty) this.#files.delete(id);
  }

  under(id: bigint, file: BlockFile, more: 1 | -1): void {
    const all = this.#under.get(id) ?? new Map<BlockFile, number>();
    const count = (all.get(file) ?? 0) + more;
    if (count > 0) all.set(file, count);
    else all.delete(file);
    if (all.size > 0) this.#under.set(id, all);
    else this.#under.delete(id);
  }

  /** Whoever still writes to the epoch that has ended is refused, and writes nothing more to the next one. */
  epochEnded(id: bigint): void {
    for (const file of this.#under.get(id)?.keys() ?? []) file.refuse();
  }

  mayFetch(): boolean {
    return this.#ahead < MOST_AHEAD;
  }

  /** Counts a request that fetches ahead. */
  ahead(one: Promise<void>): void {
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

  override opening(
    client: NinepClient,
    { id, flags = 0 }: { id?: bigint; flags?: number },
  ): Opening {
    if (id !== undefined) this.changed(id, (flags & OPEN.TRUNC) !== 0);
    const writes = (this.flags(flags) & OPEN.ACCESS) === OPEN.RDWR;
    let asked: Asked | undefined;
    let look: Promise<Version> | undefined;
    return {
      follow: (fid) => {
        if (id === undefined || !client.inOrder) return;
        asked = this.#peek(id).asked();
        look = client.ask(
          BLOCK.LOOK,
          (request) => putProofs(request.u32(fid).u64(0), []),
          readVersion,
        );
        look.catch(() => {/* who needs it asks again */});
      },
      file: (fid, id) => {
        // It may have been there, and be cut by being made.
        if (!look) this.changed(id, true);
        const file = new BlockFile(client, fid, { id, blocks: this, writes });
        if (look && asked) file.begin(look, asked);
        return file;
      },
    };
  }

  #peek(id: bigint): KeptFile {
    const kept = this.#files.get(id) ?? new KeptFile(this.#budget);
    this.#files.set(id, kept);
    return kept;
  }
}
