/**
 * Addresses that stand in for names: a workload whose connections are redirected looks a name up, gets a stand-in,
 * and connects to it. So the name is known when the connection is made, and nobody is asked for its address before
 * its route is decided.
 */

/** 198.18.0.0/15, which is for tests of networks and led nowhere. */
const FIRST = 198 << 24 | 18 << 16;
const COUNT = 1 << 17;
/** Names that are kept, at most; the one that was asked for longest ago goes first. */
const MOST = 1 << 16;

const text = (index: number) => {
  const address = FIRST + index;
  return [24, 16, 8, 0].map((bits) => address >>> bits & 255).join(".");
};

export class StandIns {
  /** Addresses by name, those asked for last at the end. */
  readonly #addresses = new Map<string, string>();
  readonly #names = new Map<string, string>();
  readonly #most: number;
  #next = 1;

  constructor(most = MOST) {
    this.#most = most;
  }

  /** The name's own address: the same one as long as the name is kept. */
  addressOf(name: string): string {
    const known = this.#addresses.get(name);
    if (known !== undefined) {
      this.#addresses.delete(name);
      this.#addresses.set(name, known);
      return known;
    }
    if (this.#addresses.size >= this.#most) {
      const [[oldest, address]] = this.#addresses;
      this.#addresses.delete(oldest);
      this.#names.delete(address);
    }
    let address: string;
    do address = text(this.#next++ % COUNT); while (this.#names.has(address));
    this.#addresses.set(name, address);
    this.#names.set(address, name);
    return address;
  }

  /** Undefined for an address that stands in for nothing. */
  nameOf(address: string): string | undefined {
    return this.#names.get(address);
  }
}
