/** Which of a file's open fids carries what is asked for of it. */

interface Fid {
  fid: number;
  writes: boolean;
  open: boolean;
}

export class Carriers {
  /** The open ones, and the carrier. */
  readonly #fids: Fid[] = [];
  #carrier: Fid | undefined;

  /** The carrier; there is one as long as a fid is open. */
  get fid(): number {
    return this.#carrier!.fid;
  }

  /** A fid has been opened. Returns one that nobody needs any more. */
  open(fid: number, writes: boolean): number | undefined {
    const opened = { fid, writes, open: true };
    this.#fids.push(opened);
    const before = this.#carrier;
    if (before && (before.writes || !writes)) return undefined;
    this.#carrier = opened;
    return before && !before.open ? this.#drop(before) : undefined;
  }

  /**
   * A fid is no longer used by itself. `stays`: it is still the carrier, and must not be ended; `idle`: another one
   * that nobody needs any more.
   */
  close(fid: number): { stays: boolean; idle?: number } {
    const closed = this.#fids.find((one) => one.fid === fid && one.open)!;
    closed.open = false;
    const carrier = this.#carrier!;
    const used = this.#fids.some(({ open }) => open);
    if (used && closed === carrier) return { stays: true };
    this.#drop(closed);
    if (used) return { stays: false };
    this.#carrier = undefined;
    return { stays: false, ...(carrier !== closed && { idle: this.#drop(carrier) }) };
  }

  #drop(one: Fid): number {
    this.#fids.splice(this.#fids.indexOf(one), 1);
    return one.fid;
  }
}
