/**
 * From image names to bytes: names of this server are read from its content store, other names from their
 * registries. A name without a registry part means an image here where there is one, else the default
 * upstream's.
 */
import { MAY_NOT_PULL_VIA } from "../auth/internal.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import type { ImageSink, ImageSource, ReadOptions, ResolvedManifest } from "../oci/image.ts";
import { readImageConfig } from "../oci/image_config.ts";
import { hostPlatform, platformMatches, selectPlatform } from "../oci/platform.ts";
import { formatReference, parseReference, type Reference } from "../oci/reference.ts";
import type {
  ImageCaller,
  ImageResolver,
  Login,
  ResolvedImage,
  ResolveOptions,
} from "../oci/resolver.ts";
import {
  type Descriptor,
  type ImageConfig,
  type Index,
  type Manifest,
  MEDIA,
  type Platform,
} from "../oci/types.ts";
import { type LocalImages, READ_ONLY, refuseBuilder, refusing } from "./local_images.ts";

export type Registry = ImageSource & ImageSink;

export interface ResolverOptions {
  local: LocalImages;
  /** True for registry hosts that are this server. */
  isOwn: (host: string) => boolean;
  /** The registry part under which names without one are published here. */
  ownHost: () => string;
  /** Another registry's host that names without a registry part mean; this server may have the image, too. */
  home?: string;
  /**
   * Connects lazily; called once per host. `login` replaces the server's own credentials; `via` is the Via
   * field of its requests.
   */
  remote: (host: string, login?: Login, via?: string) => Registry;
  /** False: the caller may not read images of this server. Publishing is not affected. */
  mayPull?: boolean;
}

/** The error does not tell whether the image exists, except for names without a registry part. */
function notYours(name: string): SvcError {
  return new SvcError(
    "denied",
    `Cannot read ${name}: it is an image of this server, and no rule allows the caller to pull`,
    { help: "ask for the action pull in the server's policy", detail: { action: "pull" } },
  );
}

/** The registry of names without a registry part, as in every other tool. */
const DEFAULT_UPSTREAM = { name: "docker.io", alias: "index.docker.io", library: "library" };

/** Bytes of an image config: far more than any real one has. */
const MAX_CONFIG = 8 * 1024 * 1024;

interface ImageOrigin {
  source: ImageSource;
  repository: string;
  /** The complete name. */
  name: string;
}

interface FoundImage {
  origin: ImageOrigin;
  root: ResolvedManifest;
}

/** The part of a reference that names the manifest within its repository. */
const wanted = (reference: Reference) => reference.digest ?? reference.tag ?? "latest";

/** The complete name. */
const named = (reference: Reference, registry: string) =>
  formatReference({
    ...reference,
    registry,
    tag: reference.tag ?? (reference.digest ? undefined : "latest"),
  });

export function createImageResolver(options: ResolverOptions): ImageResolver {
  return new Images(options);
}

class Images implements ImageResolver {
  readonly #options: ResolverOptions;
  readonly #mayPull: boolean;
  readonly #remotes = new Map<string, Registry>();

  constructor(options: ResolverOptions) {
    this.#options = options;
    this.#mayPull = options.mayPull ?? true;
  }

  forCaller({ logins, registry, mayPull }: ImageCaller): ImageResolver {
    const options = this.#options;
    return new Images({
      ...options,
      ...(mayPull === false && { mayPull }),
      ...(registry !== undefined && !options.isOwn(registry) && { home: registry }),
      ...(logins && {
        remote: (host, login, via) => options.remote(host, logins.get(host) ?? login, via),
      }),
    });
  }

  async resolve(
    text: string,
    { platform = hostPlatform(), pull, signal }: ResolveOptions = {},
  ): Promise<ResolvedImage> {
    const { origin, root } = await this.#find(parseReference(text), platform, {
      signal,
      fresh: pull,
    });
    const { descriptor, manifest } = await onPlatform(origin, root, platform, signal);
    const config = await readConfig(origin, manifest, signal);
    const { name, source, repository } = origin;
    const image = { name, source, repository, descriptor, manifest, config };
    return this.#mayPull ? image : { ...image, apart: true };
  }

  async held(text: string, read: ReadOptions = {}): Promise<string | undefined> {
    const { home, isOwn, local: { engine, kept } } = this.#options;
    const { registry, repository, tag = "latest", digest } = parseReference(text);
    if (!engine || !this.#mayPull || digest !== undefined || read.fresh) return undefined;
    if (registry !== undefined && !isOwn(registry)) {
      return await engine.locate(`${registry}/${repository}`, tag, read);
    }
    if (registry === undefined && home !== undefined) return undefined;
    if (await kept?.resolve(repository, tag, read)) return undefined;
    return await engine.locate(repository, tag, read);
  }

  place(text: string): ImageOrigin & { reference: string } {
    const reference = parseReference(text);
    const origin = this.#originOf(reference, reference.registry ?? this.#defaultHost());
    return { ...origin, reference: wanted(reference) };
  }

  target(text: string): ReturnType<ImageResolver["target"]> {
    const { home, isOwn, local } = this.#options;
    const reference = parseReference(text);
    if (reference.digest !== undefined) {
      throw new SvcError(
        "reference_invalid",
        `Cannot publish as ${text}: a digest follows from the image and cannot be chosen`,
        { help: "write it as [host[:port]/]name[:tag]" },
      );
    }
    const registry = reference.registry ?? this.#defaultHost();
    const tag = reference.tag ?? "latest";
    const ours = reference.registry === undefined && home === undefined || isOwn(registry);
    const { name: upstream, alias } = DEFAULT_UPSTREAM;
    // The engine's name of an upstream's image is the plain one.
    if (local.load && (ours || registry === upstream || registry === alias)) {
      refuseBuilder(reference, text);
    }
    const { repository, name } = ours
      ? { repository: reference.repository, name: named(reference, registry) }
      : this.#originOf(reference, registry);
    if (ours) return { repository, tag, name, ...this.#ownTarget(reference, tag) };
    const host = name.startsWith(`${DEFAULT_UPSTREAM.name}/`) ? DEFAULT_UPSTREAM.name : registry;
    return { sink: this.#remote(host), repository, tag, name };
  }

  #ownTarget({ registry, repository }: Reference, tag: string) {
    const { source, sink, load } = this.#options.local;
    if (!load) return { sink, ...(this.#mayPull && { own: source }) };
    const plain = `${repository}:${tag}`;
    const names = registry === undefined ? [plain] : [plain, `${registry}/${plain}`];
    return { sink: READ_ONLY, load: { names, load } };
  }

  #defaultHost(): string {
    return this.#options.home ?? this.#options.ownHost();
  }

  #remote(host: string): Registry {
    let registry = this.#remotes.get(host);
    if (!registry) {
      const via = this.#mayPull ? undefined : MAY_NOT_PULL_VIA;
      this.#remotes.set(host, registry = this.#options.remote(host, undefined, via));
    }
    return registry;
  }

  #upstream(reference: Reference): ImageOrigin {
    const { name, library } = DEFAULT_UPSTREAM;
    const { repository } = reference;
    const complete = repository.includes("/") ? repository : `${library}/${repository}`;
    return {
      source: this.#remote(name),
      repository: complete,
      name: named({ ...reference, repository: complete }, name),
    };
  }

  #originOf(reference: Reference, registry: string): ImageOrigin {
    const { isOwn, local } = this.#options;
    const { repository } = reference;
    const name = named(reference, registry);
    if (isOwn(registry)) {
      const source = this.#mayPull ? local.source : refusing(() => notYours(name));
      return { source, repository, name };
    }
    const { name: upstream, alias } = DEFAULT_UPSTREAM;
    if (registry === upstream || registry === alias) return this.#upstream(reference);
    return { source: this.#remote(registry), repository, name };
  }

  async #find(reference: Reference, platform: Platform, read: ReadOptions): Promise<FoundImage> {
    const { registry } = reference;
    if (registry === undefined) return await this.#findUnqualified(reference, platform, read);
    const origin = this.#originOf(reference, registry);
    const found = await this.#atEngine(reference, registry, platform, read) ??
      await this.#at(origin, reference, read);
    if (found) return found;
    throw unknown(
      origin.name,
      this.#options.isOwn(registry) ? "this server's registry" : undefined,
    );
  }

  async #at(
    origin: ImageOrigin,
    reference: Reference,
    read: ReadOptions,
  ): Promise<FoundImage | undefined> {
    const root = await origin.source.resolve(origin.repository, wanted(reference), read);
    return root && { origin, root };
  }

  /** An image of another registry that the engine has already, for this platform. */
  async #atEngine(
    reference: Reference,
    registry: string,
    platform: Platform,
    read: ReadOptions,
  ): Promise<FoundImage | undefined> {
    const { isOwn, local: { engine } } = this.#options;
    if (!engine || !this.#mayPull || read.fresh || isOwn(registry)) return undefined;
    const repository = `${registry}/${reference.repository}`;
    const origin = { source: engine, repository, name: named(reference, registry) };
    try {
      const found = await this.#at(origin, reference, read);
      return found && await this.#fits(found, platform, read) ? found : undefined;
    } catch (error) {
      // The registry has it too.
      if (read.signal?.aborted || !(error instanceof SvcError)) throw error;
      return undefined;
    }
  }

  /** False for an engine's image of another platform: engines keep one platform of an image, registries all. */
  async #fits({ origin, root }: FoundImage, platform: Platform, { signal }: ReadOptions) {
    if (!this.#options.local.engine || INDEX_TYPES.has(root.descriptor.mediaType)) return true;
    const config = await readConfig(origin, parseManifest<Manifest>(origin, root), signal);
    return platformMatches(config, platform);
  }

  /** A name without a registry part: looked for at the caller's home, then here, then at the default upstream. */
  async #findUnqualified(reference: Reference, platform: Platform, read: ReadOptions) {
    const { home, local, ownHost } = this.#options;
    const atHome = home !== undefined &&
      await this.#at(this.#originOf(reference, home), reference, read);
    if (atHome) return atHome;
    const { repository } = reference;
    const here = { source: local.source, repository, name: named(reference, ownHost()) };
    const own = await this.#at(here, reference, read);
    if (own && !this.#mayPull) throw notYours(own.origin.name);
    if (own && await this.#fits(own, platform, read)) return own;
    const text = formatReference(reference);
    let found;
    try {
      found = await this.#at(this.#upstream(reference), reference, read);
    } catch (error) {
      if (read.signal?.aborted) throw error;
      if (own) return own;
      const { message } = asSvcError(error);
      const upstream = `${DEFAULT_UPSTREAM.name} cannot be asked: ${message}`;
      throw new SvcError(
        "upstream_failed",
        `Cannot resolve ${text}: this server's registry does not have it, and ${upstream}`,
        { cause: error, help: "push the image here first, or write its name with its registry" },
      );
    }
    if (found ?? own) return (found ?? own)!;
    throw unknown(text, `this server's registry and ${DEFAULT_UPSTREAM.name}`);
  }
}

function unknown(name: string, where?: string): SvcError {
  return new SvcError(
    "manifest_unknown",
    `Cannot resolve ${name}: ${where ?? "its registry"} does not have it`,
    { help: "check the name and the tag" },
  );
}

const INDEX_TYPES = new Set<string>([MEDIA.index, MEDIA.dockerList]);

function parseManifest<T>(origin: ImageOrigin, { bytes, descriptor }: ResolvedManifest): T {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as T;
  } catch (cause) {
    throw new SvcError(
      "manifest_invalid",
      `Cannot read manifest ${descriptor.digest} of ${origin.name}: it is not JSON`,
      { cause },
    );
  }
}

async function onPlatform(
  origin: ImageOrigin,
  root: ResolvedManifest,
  platform: Platform,
  signal?: AbortSignal,
): Promise<{ descriptor: Descriptor; manifest: Manifest }> {
  let current = root;
  // An index may contain indexes; no real image nests deeper.
  for (let depth = 0; depth < 4; depth++) {
    if (!INDEX_TYPES.has(current.descriptor.mediaType)) {
      const manifest = parseManifest<Manifest>(origin, current);
      if (!manifest.config?.digest || !Array.isArray(manifest.layers)) break;
      return { descriptor: current.descriptor, manifest };
    }
    const entry = selectPlatform(parseManifest<Index>(origin, current), platform);
    const next = entry && await origin.source.resolve(origin.repository, entry.digest, { signal });
    if (!next) {
      const { os, architecture, variant } = platform;
      const text = [os, architecture, variant].filter(Boolean).join("/");
      throw new SvcError(
        "manifest_unknown",
        `Cannot resolve ${origin.name}: it has no image for ${text}`,
        { help: "choose another platform or another image" },
      );
    }
    current = next;
  }
  throw new SvcError(
    "manifest_invalid",
    `Cannot use ${origin.name}: ${root.descriptor.mediaType} is not a container image`,
    { help: "name an image, not another kind of artifact" },
  );
}

async function readConfig(
  origin: ImageOrigin,
  { config }: Manifest,
  signal?: AbortSignal,
): Promise<ImageConfig> {
  if (config.size > MAX_CONFIG) {
    throw new SvcError("manifest_invalid", `Cannot use ${origin.name}: its config is too large`);
  }
  const body = await origin.source.get(origin.repository, config.digest, { signal });
  if (!body) {
    throw new SvcError(
      "blob_unknown",
      `Cannot use ${origin.name}: its config ${config.digest} is missing`,
    );
  }
  const text = await new Response(body.stream() as ReadableStream<Uint8Array<ArrayBuffer>>).text();
  const parsed = readImageConfig(text);
  if (parsed) return parsed;
  throw new SvcError(
    "manifest_invalid",
    `Cannot use ${origin.name}: its config is not a container image's`,
    { help: "name an image, not another kind of artifact" },
  );
}
