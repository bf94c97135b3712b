/** Writes that were sent and not answered yet: whoever needs their effect waits for them. */
import type { Later } from "../files/stat.ts";

/** Bytes of writes under way, at most: a round trip of 50 ms at 1 Gbit/s has 6 MB. */
const MOST = 8 << 20;

interface Sent {
  fid: number;
  /** Never rejects: the file that was written to reports its failures. */
  done: Promise<void>;
}

export class PendingWrites {
  #ofFile = new Map<bigint, Set<Sent>>();
  #bytes = 0;
  #less = Promise.withResolvers<void>();

  /** Resolves when so many bytes more may be under way. One write may always be. */
  async room(bytes: number): Promise<void> {
    while (this.#bytes > 0 && this.#bytes + bytes > MOST) await this.#less.promise;
  }

  /** A write of `bytes` to the file `id` by an open fid of it. */
  add(id: bigint, fid: number, bytes: number, written: Promise<void>): void {
    const all = this.#ofFile.get(id) ?? new Set();
    this.#ofFile.set(id, all);
    this.#bytes += bytes;
    const done = written.finally(() => {
      all.delete(sent);
      if (all.size === 0) this.#ofFile.delete(id);
      this.#bytes -= bytes;
      this.#less.resolve();
      this.#less = Promise.withResolvers();
    });
    const sent = { fid, done };
    all.add(sent);
  }

  /**
   * Resolves when all writes to a file that were sent so far are done. `but`: not those by this fid, since the
   * server does what names a fid in its order.
   */
  settled(id: bigint, but?: number): Later<void> {
    const all = this.#ofFile.get(id);
    if (!all) return;
    const waits = [...all].filter(({ fid }) => fid !== but).map(({ done }) => done);
    if (waits.length > 0) return Promise.all(waits).then(() => {});
  }

  /** Resolves when all writes that were sent so far are done. */
  all(): Later<void> {
    if (this.#ofFile.size === 0) return;
    const waits = [...this.#ofFile.values()].flatMap((all) => [...all].map(({ done }) => done));
    return Promise.all(waits).then(() => {});
  }
}
