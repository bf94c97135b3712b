/**
 * The tags of repositories and the names of the catalog. A store with one process lists them once, then keeps
 * the list right with each write. The list is only a cache: nothing of it has to survive a crash, and opening a
 * store reads nothing. On other stores each page is a listing that begins where the last page ended.
 */
import { Lru } from "./lru.ts";

/** Approximate bytes of all remembered names. */
const REMEMBERED = 32 * 1024 * 1024;
/** Bytes that a name takes besides its letters. */
const OVERHEAD = 40;

export interface NamePage {
  /** In byte order. Shared with later callers: do not change it. */
  names: readonly string[];
  /** True where more names follow. */
  more: boolean;
}

/** Names in byte order, one by one or as a page at once. */
export interface NameList extends AsyncIterable<string> {
  page(limit: number): Promise<NamePage>;
}

/** The first names of any listing. A whole {@linkcode NameList} is returned as it is, without a copy. */
export async function pageOfNames(list: AsyncIterable<string>, limit: number): Promise<NamePage> {
  if ("page" in list) return await (list as NameList).page(limit);
  const names: string[] = [];
  if (limit === 0) return { names, more: false };
  for await (const name of list) {
    if (names.length === limit) return { names, more: true };
    names.push(name);
  }
  return { names, more: false };
}

/** The names that `list` gives. `limit`: the caller wants no more names. */
export function listedNames(list: (limit?: number) => AsyncIterable<string>): NameList {
  return {
    page: (limit) => pageOfNames({ [Symbol.asyncIterator]: () => iterate(list(limit + 1)) }, limit),
    [Symbol.asyncIterator]: () => iterate(list()),
  };
}

const iterate = (names: AsyncIterable<string>) => names[Symbol.asyncIterator]();

interface Remembered {
  names: readonly string[];
  cost: number;
}

interface Loading {
  names: Promise<readonly string[]>;
  /** Writes since the listing began, in order. The listing may or may not have seen them. */
  changes: [name: string, there: boolean][];
}

/** Index of the first name that is not smaller than `wanted`. */
function lowerBound(names: readonly string[], wanted: string): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (names[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Returns the same array where nothing changes; a change makes a new array, so that readers of the old one are
 * not disturbed.
 */
function changed(names: readonly string[], name: string, there: boolean): readonly string[] {
  const at = lowerBound(names, name);
  if ((names[at] === name) === there) return names;
  return there ? names.toSpliced(at, 0, name) : names.toSpliced(at, 1);
}

const costOf = (name: string) => name.length + OVERHEAD;

/** The names of many listings; the most recently used listings are remembered. */
export class NameIndex {
  #lists: Lru<Remembered>;
  #loading = new Map<string, Loading>();

  /** `load` lists all names of `prefix` in byte order. */
  constructor(
    private readonly load: (prefix: string) => AsyncIterable<string>,
    limit: number = REMEMBERED,
  ) {
    this.#lists = new Lru(limit, ({ cost }) => cost);
  }

  list(prefix: string, after?: string): NameList {
    const rest = async () => {
      const names = await this.#names(prefix);
      let from = after === undefined ? 0 : lowerBound(names, after);
      if (from < names.length && names[from] === after) from++;
      return { names, from };
    };
    return {
      async page(limit) {
        const { names, from } = await rest();
        const more = limit > 0 && names.length - from > limit;
        if (from === 0 && names.length <= limit) return { names, more };
        return { names: names.slice(from, from + limit), more };
      },
      async *[Symbol.asyncIterator]() {
        const { names, from } = await rest();
        for (let at = from; at < names.length; at++) yield names[at];
      },
    };
  }

  async #names(prefix: string): Promise<readonly string[]> {
    const known = this.#lists.get(prefix);
    if (known) return known.names;
    const under = this.#loading.get(prefix);
    if (under) return await under.names;
    // Others wait for this listing, too: no single caller's signal ends it.
    const loading: Loading = { names: Promise.resolve([]), changes: [] };
    this.#loading.set(prefix, loading);
    loading.names = this.#read(prefix, loading);
    return await loading.names;
  }

  async #read(prefix: string, loading: Loading): Promise<readonly string[]> {
    try {
      let names: readonly string[] = await Array.fromAsync(this.load(prefix));
      for (const [name, there] of loading.changes) names = changed(names, name, there);
      if (this.#loading.get(prefix) === loading) {
        const cost = names.reduce((sum, name) => sum + costOf(name), OVERHEAD + prefix.length);
        this.#lists.set(prefix, { names, cost });
      }
      return names;
    } finally {
      if (this.#loading.get(prefix) === loading) this.#loading.delete(prefix);
    }
  }

  /**
   * Runs a write that adds (`there`) or removes `name`. Writes of the same name must not overlap. A failed
   * write may have been done or not: so the names are read again.
   */
  async write<T>(prefix: string, name: string, there: boolean, work: () => Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await work();
    } catch (error) {
      this.#lists.delete(prefix);
      this.#loading.delete(prefix);
      throw error;
    }
    this.#loading.get(prefix)?.changes.push([name, there]);
    const known = this.#lists.get(prefix);
    const names = known && changed(known.names, name, there);
    if (known && names !== known.names) {
      this.#lists.set(prefix, {
        names: names!,
        cost: known.cost + (there ? costOf(name) : -costOf(name)),
      });
    }
    return result;
  }
}
