/**
 * A registry that shows the images of a container engine (SPEC "Registry view rules" 1 and 3). The image app:v1 of
 * the registry is what the engine calls app:v1. Images of other registries are below those registries' names
 * ("ghcr.io/org/tool"); one whose registry has a port has no name here, for a repository's name has no colon. Names
 * with this server's own address are the same as names without it, where the engine lacks the latter.
 */
import { SvcError } from "../base/errors.ts";
import { isDigest } from "../oci/digest.ts";
import type { ImageSource, ReadOptions } from "../oci/image.ts";
import { isRepositoryName, parseReference } from "../oci/reference.ts";
import type { LookOptions, RegistryReader } from "./view.ts";

/** The ability `images` of a deploy backend. */
export interface EngineImages {
  /** Repositories are the engine's own names without their tags. */
  reader: ImageSource;
  repositories(options?: { signal?: AbortSignal }): AsyncIterable<string>;
  /** Throws where nothing can be read now. */
  ready?(options?: { signal?: AbortSignal }): Promise<void>;
}

export interface EngineViewOptions {
  /** Throws where the engine cannot be used now. */
  images: () => Promise<EngineImages>;
  /** True for registry hosts that are this server. */
  isOwn: (host: string) => boolean;
}

/** "docker.io/library/app" and "library/app" are what people write as "app". */
const short = (repository: string) =>
  repository.replace(/^docker\.io\//, "").replace(/^library\/(?=[^/]+$)/, "");

export class EngineView implements RegistryReader {
  readonly #options: EngineViewOptions;

  constructor(options: EngineViewOptions) {
    this.#options = options;
  }

  async ready(options?: { signal?: AbortSignal }): Promise<void> {
    await (await this.#options.images()).ready?.(options);
  }

  async resolve(repository: string, reference: string, options?: LookOptions) {
    const { reader } = await this.#options.images();
    const found = await reader.resolve(repository, reference, options);
    if (found || isDigest(reference)) return found;
    for (const name of await this.#names(repository, options)) {
      const other = name !== repository && await reader.resolve(name, reference, options);
      if (other) return other;
    }
    return undefined;
  }

  async stat(...call: Parameters<RegistryReader["stat"]>) {
    return await (await this.#options.images()).reader.stat(...call);
  }

  async get(...call: Parameters<RegistryReader["get"]>) {
    return await (await this.#options.images()).reader.get(...call);
  }

  async *tags(repository: string, options: LookOptions & { after?: string } = {}) {
    const { reader } = await this.#options.images();
    const tags = new Set<string>();
    for (const name of await this.#names(repository, options)) {
      for await (const tag of reader.tags(name, options)) tags.add(tag);
    }
    yield* [...tags].sort();
  }

  async *referrers(...call: Parameters<RegistryReader["referrers"]>) {
    yield* (await this.#options.images()).reader.referrers(...call);
  }

  async hasRepository(repository: string, options?: LookOptions) {
    return (await this.#names(repository, options)).length > 0;
  }

  async *repositories({ after, signal }: { after?: string; signal?: AbortSignal } = {}) {
    const names = new Set<string>();
    for (const { shown } of await this.#all({ signal })) if (shown) names.add(shown);
    for (const name of [...names].sort()) if (after === undefined || name > after) yield name;
  }

  /** The name by which the engine has an image, without reading it. */
  async locate(repository: string, tag: string, options?: ReadOptions) {
    const { reader } = await this.#options.images();
    for (const name of await this.#names(repository, options)) {
      for await (const one of reader.tags(name, options)) if (one === tag) return `${name}:${tag}`;
    }
    return undefined;
  }

  /** The engine's names with this server's address that mean the image: a new image takes them too. */
  async aliases(repository: string, tag: string, options?: ReadOptions): Promise<string[]> {
    const { reader } = await this.#options.images();
    const found: string[] = [];
    for (const name of await this.#names(repository, options)) {
      const { registry } = parseReference(name);
      if (registry === undefined || !this.#options.isOwn(registry)) continue;
      for await (const one of reader.tags(name, options)) {
        if (one === tag) found.push(`${name}:${tag}`);
      }
    }
    return found;
  }

  /** The engine's names that are shown as this repository, the plain one first. */
  async #names(repository: string, options?: ReadOptions): Promise<string[]> {
    const wanted = short(repository);
    return (await this.#all(options)).filter(({ name, shown }) =>
      shown === wanted || name === repository
    )
      .map(({ name }) => name).sort((a, b) => Number(b === wanted) - Number(a === wanted));
  }

  async #all({ signal }: ReadOptions = {}) {
    const { repositories } = await this.#options.images();
    const names = await Array.fromAsync(repositories({ signal }));
    return names.map((name) => ({ name, shown: this.#shown(name) }));
  }

  /** Undefined: no client could ask for it. */
  #shown(name: string): string | undefined {
    let reference;
    try {
      reference = parseReference(name);
    } catch (error) {
      if (error instanceof SvcError) return undefined;
      throw error;
    }
    const { registry, repository } = reference;
    if (registry === undefined || registry === "docker.io") return short(repository);
    // podman puts what it builds itself there.
    if (registry === "localhost" || this.#options.isOwn(registry)) return repository;
    return isRepositoryName(name) ? name : undefined;
  }
}

/** A view as the second half of a union: a push goes on where the engine cannot be asked what it has. */
export function forUnion(view: RegistryReader): RegistryReader {
  const lenient = async <T>(work: Promise<T>, options?: LookOptions): Promise<T | undefined> => {
    try {
      return await work;
    } catch (error) {
      if (!options?.probe || options.signal?.aborted || !(error instanceof SvcError)) throw error;
      return undefined;
    }
  };
  return {
    resolve: (repository, reference, options) =>
      lenient(view.resolve(repository, reference, options), options),
    stat: (repository, digest, options) => lenient(view.stat(repository, digest, options), options),
    get: (...call) => view.get(...call),
    tags: (...call) => view.tags(...call),
    referrers: (...call) => view.referrers(...call),
    hasRepository: (...call) => view.hasRepository(...call),
    repositories: (...call) => view.repositories(...call),
  };
}
