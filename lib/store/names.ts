/** The catalog and the tag lists of a store, and the names below any prefix. */
import { escapeName, firstKey, REPOS, tagsPrefix, unescapeName } from "./keys.ts";
import { listedNames, NameIndex, type NameList } from "./name_index.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";

/** Repositories that are remembered. */
const KNOWN = 10_000;

export interface ListOptions extends CallOptions {
  /** Names strictly after this one. */
  after?: string;
  /** A hint: the caller wants no more names. */
  limit?: number;
}

export class StoreNames {
  #index?: NameIndex;
  /** Shared store only: repositories that are known to be in the catalog. A repository never leaves the catalog. */
  #known = new Set<string>();

  constructor(private readonly objects: ObjectStore) {
    // Only the names of a store that no other process writes can be remembered.
    if (objects.exclusive) this.#index = new NameIndex((prefix) => this.#listed(prefix, {}));
  }

  /** The rest of each key below `prefix`, read from the store; an object with copies comes once. */
  async *below(prefix: string, { after, ...options }: ListOptions): AsyncGenerator<string> {
    const from = after !== undefined && { after: prefix + after };
    let last = after;
    for await (const entry of this.objects.list(prefix, { ...options, brief: true, ...from })) {
      if (!("key" in entry)) continue;
      const name = firstKey(entry.key.slice(prefix.length));
      if (name !== last) yield last = name;
    }
  }

  /** The names as clients know them: keys hold repository names in an escaped form. */
  async *#listed(prefix: string, options: ListOptions): AsyncGenerator<string> {
    if (prefix !== REPOS) return yield* this.below(prefix, options);
    const after = options.after === undefined ? undefined : escapeName(options.after);
    for await (const name of this.below(prefix, { ...options, after })) yield unescapeName(name);
  }

  #list(prefix: string, options: ListOptions): NameList {
    return this.#index?.list(prefix, options.after) ??
      listedNames((limit) => this.#listed(prefix, { ...options, limit }));
  }

  tags(repository: string, options: ListOptions = {}): NameList {
    return this.#list(tagsPrefix(repository), options);
  }

  repositories(options: ListOptions = {}): NameList {
    return this.#list(REPOS, options);
  }

  /** Runs a write that adds (`there`) or removes a tag. Writes of one repository must not overlap. */
  writeTag<T>(
    repository: string,
    tag: string,
    there: boolean,
    work: () => Promise<T>,
  ): Promise<T> {
    return this.#index?.write(tagsPrefix(repository), tag, there, work) ?? work();
  }

  /** Runs a write that makes sure that a repository is in the catalog. */
  async writeRepository(repository: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#index) return void await this.#index.write(REPOS, repository, true, work);
    if (this.#known.has(repository)) return;
    await work();
    if (this.#known.size === KNOWN) this.#known.clear();
    this.#known.add(repository);
  }
}
