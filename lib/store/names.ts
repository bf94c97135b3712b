/** The catalog and the tag lists of a store, and names below any prefix of it. */
import { escapeName, REPOS, tagsPrefix, unescapeName } from "./keys.ts";
import { listedNames, NameIndex, type NameList } from "./name_index.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";

/** Repositories that are remembered. */
const KNOWN = 10_000;

export interface ListOptions extends CallOptions {
  /** Names strictly after this one. */
  after?: string;
  /** No more than so many are wanted: a hint. */
  limit?: number;
}

export class StoreNames {
  #index?: NameIndex;
  /** Of a shared store: repositories that this process knows are in the catalog; none ever leaves it. */
  #known = new Set<string>();

  constructor(private readonly objects: ObjectStore) {
    // What nobody else writes may be remembered.
    if (objects.exclusive) this.#index = new NameIndex((prefix) => this.#listed(prefix, {}));
  }

  /** What stands behind `prefix` in the keys below it, read from the store. */
  async *below(prefix: string, { after, ...options }: ListOptions): AsyncGenerator<string> {
    const from = after !== undefined && { after: prefix + after };
    for await (const entry of this.objects.list(prefix, { ...options, brief: true, ...from })) {
      if ("key" in entry) yield entry.key.slice(prefix.length);
    }
  }

  /** As clients call them: names of repositories stand escaped in their keys. */
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

  /** A write that makes a tag come (`there`) or go. Writes of one repository must not overlap. */
  writeTag<T>(
    repository: string,
    tag: string,
    there: boolean,
    work: () => Promise<T>,
  ): Promise<T> {
    return this.#index?.write(tagsPrefix(repository), tag, there, work) ?? work();
  }

  /** A write that makes sure that a repository is in the catalog. */
  async writeRepository(repository: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#index) return void await this.#index.write(REPOS, repository, true, work);
    if (this.#known.has(repository)) return;
    await work();
    if (this.#known.size === KNOWN) this.#known.clear();
    this.#known.add(repository);
  }
}
