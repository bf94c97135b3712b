/** What the files of a mount with `,async` share: the blocks that are kept, of all of its files. */
import { type NodeStat, OPEN } from "../files/node.ts";
import type { NinepClient } from "../ninep/client.ts";
import type { Writer } from "../ninep/messages.ts";
import { Ahead, type Opening } from "../ninep/remote_file.ts";
import { BlockFile } from "./block_file.ts";
import { BlockBudget } from "./budget.ts";
import { type Asked, KeptFile } from "./kept_file.ts";
import { BLOCK, type BlockOptions, putProofs, readVersion, type Version } from "./protocol.ts";

/** Requests that fetch ahead of reads at once: 8 MB. */
const MOST_AHEAD = 32;

export class AheadBlocks extends Ahead {
  readonly #files = new Map<bigint, KeptFile>();
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

  override opening(
    client: NinepClient,
    { id, flags = 0 }: { id?: bigint; flags?: number },
  ): Opening {
    if (id !== undefined) this.changed(id, (flags & OPEN.TRUNC) !== 0);
    const writes = (this.flags(flags) & OPEN.ACCESS) === OPEN.RDWR;
    const known = id === undefined ? undefined : this.keptOf(id);
    let look: { asked?: Asked; answer: Promise<Version> } | undefined;
    return {
      follow: (fid) => {
        if (!client.inOrder) return;
        const fill = (request: Writer) => putProofs(request.u32(fid).u64(0), []);
        const answer = client.ask(BLOCK.LOOK, fill, readVersion);
        answer.catch(() => {/* who needs it asks again */});
        look = { asked: known?.asked(), answer };
      },
      file: (fid, made) => {
        // It may have been there, and be cut by being made.
        const fresh = !this.#files.has(made);
        if (id === undefined) this.changed(made, true);
        const file = new BlockFile(client, fid, made, this, writes);
        const kept = this.keptOf(made);
        // What was kept when it was asked, another one's close may have forgotten. Nothing was kept of a file that is
        // new here.
        const asked = known === kept ? look?.asked : !known && fresh ? kept.asked() : undefined;
        if (look && asked) file.begin(look.answer, asked);
        return file;
      },
    };
  }
}
