/**
 * A registry that shows the images of a container engine (SPEC "Registry view rules" 1 to 3). The image app:v1 of
 * the registry is what the engine calls app:v1. Images of other registries are below those registries' names
 * ("ghcr.io/org/tool"); one whose registry has a port has no name here, for a repository's name has no colon. Names
 * with this server's own address are the same as names without it, where the engine lacks the latter.
 *
 * Where the engine takes pushes, those names come first: app:v1 that is pushed here is the engine's
 * localhost:5000/app:v1. So nobody changes what a name of another registry means by a push.
 */
import { SvcError } from "../base/errors.ts";
import { isDigest } from "../oci/digest.ts";
import type { ImageSource, ReadOptions } from "../oci/image.ts";
import { isRepositoryName, isTag, parseReference } from "../oci/reference.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { EngineWriter } from "../store/engine_writer.ts";
import type { ReaderOptions, RegistryReader } from "./view.ts";

/** The ability `images` of a deploy backend. */
export interface EngineImages {
  /** Repositories are the engine's own names without their tags. */
  reader: ImageSource;
  repositories(options?: { signal?: AbortSignal }): AsyncIterable<string>;
  /** Throws where nothing can be read now. */
  ready?(options?: { signal?: AbortSignal }): Promise<void>;
  /** Absent: the engine takes no pushes, and finds a manifest by its digest in whatever repository. */
  writer?: EngineWriter;
}

export interface EngineViewOptions {
  /** Throws where the engine cannot be used now. */
  images: () => Promise<EngineImages>;
  /** True for registry hosts that are this server. */
  isOwn: (host: string) => boolean;
  /** This server's address, for the names of images that are pushed here. */
  ownHost: () => string;
}

/** "docker.io/library/app" and "library/app" are what people write as "app". */
export const short = (repository: string) =>
  repository.replace(/^docker\.io\//, "").replace(/^library\/(?=[^/]+$)/, "");

/** The registry whose image a repository here is: of "ghcr.io/org/tool" it is ghcr.io. */
export function registryIn(repository: string): string | undefined {
  try {
    return parseReference(repository).registry;
  } catch (error) {
    if (error instanceof SvcError) return undefined;
    throw error;
  }
}

export class EngineView implements RegistryReader {
  readonly #options: EngineViewOptions;

  constructor(options: EngineViewOptions) {
    this.#options = options;
  }

  async ready(options?: { signal?: AbortSignal }): Promise<void> {
    await (await this.#options.images()).ready?.(options);
  }

  async resolve(repository: string, reference: string, options?: ReaderOptions) {
    const { reader, writer } = await this.#options.images();
    if (!writer) {
      const found = await reader.resolve(repository, reference, options);
      if (found || isDigest(reference)) return found;
    }
    const tag = isTag(reference) ? reference : undefined;
    for (const name of await this.#names(repository, options, tag)) {
      if (!writer && name === repository) continue;
      const found = await reader.resolve(name, reference, options);
      if (!found) continue;
      // The caller may be about to push an index that names it.
      const kept = !writer || !options?.probe || !isDigest(reference) ||
        await writer.hold(short(repository), reference, options);
      return kept ? found : undefined;
    }
    return undefined;
  }

  async stat(repository: string, digest: Digest, options?: ReaderOptions) {
    const { reader, writer } = await this.#options.images();
    return writer && options?.probe
      ? await writer.hold(short(repository), digest, options)
      : await reader.stat(repository, digest, options);
  }

  async get(...call: Parameters<RegistryReader["get"]>) {
    return await (await this.#options.images()).reader.get(...call);
  }

  async *tags(repository: string, options: ReaderOptions & { after?: string } = {}) {
    const { reader } = await this.#options.images();
    const tags = new Set<string>();
    for (const name of await this.#names(repository, options)) {
      for await (const tag of reader.tags(name, options)) tags.add(tag);
    }
    yield* [...tags].sort();
  }

  async *referrers(
    repository: string,
    digest: Digest,
    { after, ...options }: ReaderOptions & { after?: Digest } = {},
  ) {
    const { reader } = await this.#options.images();
    const found = new Map<Digest, Descriptor>();
    for (const name of await this.#names(repository, options)) {
      for await (const one of reader.referrers(name, digest, options)) found.set(one.digest, one);
    }
    for (const key of [...found.keys()].sort()) {
      if (after === undefined || key > after) yield found.get(key)!;
    }
  }

  async hasRepository(repository: string, options?: ReaderOptions) {
    return (await this.#names(repository, options)).length > 0;
  }

  async *repositories({ after, signal }: { after?: string; signal?: AbortSignal } = {}) {
    const names = new Set<string>();
    for (const { shown } of await this.#all({}, { signal })) if (shown) names.add(shown);
    for (const name of [...names].sort()) if (after === undefined || name > after) yield name;
  }

  /** The name by which the engine has an image, without reading it. */
  async locate(repository: string, tag: string, options?: ReadOptions) {
    const { reader } = await this.#options.images();
    for (const name of await this.#names(repository, options, tag)) {
      for await (const one of reader.tags(name, options)) if (one === tag) return `${name}:${tag}`;
    }
    return undefined;
  }

  /** The engine's names with this server's address that mean the image: a new image takes them too. */
  async aliases(repository: string, tag: string, options?: ReadOptions): Promise<string[]> {
    const { reader } = await this.#options.images();
    const found: string[] = [];
    for (const name of await this.#names(repository, options, tag)) {
      const { registry } = parseReference(name);
      if (registry === undefined || !this.#options.isOwn(registry)) continue;
      for await (const one of reader.tags(name, options)) {
        if (one === tag) found.push(`${name}:${tag}`);
      }
    }
    return found;
  }

  async #names(repository: string, options?: ReadOptions, tag?: string): Promise<string[]> {
    return (await this.named(repository, options, tag)).map(({ name }) => name);
  }

  /** The engine's names that are shown as this repository, the one that counts first. `tag`: those that have it. */
  async named(repository: string, options?: ReadOptions, tag?: string): Promise<Shown[]> {
    const wanted = short(repository);
    const foreign = registryIn(repository) !== undefined;
    const found = (await this.#all({ repository: wanted, tag }, options)).filter((
      { name, shown, pushed },
    ) =>
      // Another registry's image is that registry's, whatever is pushed here.
      foreign ? shown === wanted && !pushed || name === repository : shown === wanted
    );
    const rank = ({ name, pushed }: Shown) =>
      pushed ? (name === this.home(repository) ? 0 : 1) : name === wanted ? 2 : 3;
    return found.sort((a, b) => rank(a) - rank(b));
  }

  /** `only`: names that cannot mean it may be left out, as no caller may make the others' answers fail. */
  async #all(
    only: { repository?: string; tag?: string },
    { signal }: ReadOptions = {},
  ): Promise<Shown[]> {
    const { repositories, writer } = await this.#options.images();
    const names = writer
      ? await writer.names({ ...only, signal })
      : (await Array.fromAsync(repositories({ signal }))).map((name) => ({ name, pushed: false }));
    return names.map((one) => ({ ...one, shown: this.#shown(one.name, one.pushed) }));
  }

  /** Undefined: no client could ask for it. `pushed`: the address in it is, or was, this server's. */
  #shown(name: string, pushed: boolean): string | undefined {
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
    if (pushed || registry === "localhost" || this.#options.isOwn(registry)) {
      return registryIn(repository) === undefined ? short(repository) : undefined;
    }
    return isRepositoryName(name) ? name : undefined;
  }

  /** The engine's name for what is pushed to the repository. */
  home(repository: string): string {
    return `${this.#options.ownHost()}/${short(repository)}`;
  }
}

/** One of the engine's names, without its tags. */
export interface Shown {
  name: string;
  /** The repository here. */
  shown: string | undefined;
  /** It was pushed here. */
  pushed: boolean;
}

/** A view as the second half of a union: a push goes on where the engine cannot be asked what it has. */
export function forUnion(view: RegistryReader): RegistryReader {
  const lenient = async <T>(work: Promise<T>, options?: ReaderOptions): Promise<T | undefined> => {
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
