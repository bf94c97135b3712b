/**
 * From image names to bytes: names of this server go straight to its content store, others to their
 * registries. A name without a registry part is ours where we have it, else the default upstream's.
 */
import { MAY_NOT_PULL_VIA } from "../auth/internal.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import type { ImageSink, ImageSource, ReadOptions, ResolvedManifest } from "../oci/image.ts";
import { hostPlatform, selectPlatform } from "../oci/platform.ts";
import { formatReference, parseReference, type Reference } from "../oci/reference.ts";
import type { ImageResolver, Login, ResolvedImage } from "../oci/resolver.ts";
import {
  type Descriptor,
  type ImageConfig,
  type Index,
  type Manifest,
  MEDIA,
  type Platform,
} from "../oci/types.ts";

export type Registry = ImageSource & ImageSink;

export interface ResolverOptions {
  local: Registry;
  /** True for registry hosts that are this server. */
  isOwn: (host: string) => boolean;
  /** Registry part of names that are published here without one. */
  ownHost: () => string;
  /** Host of another registry that names without one mean; they may be here nevertheless. */
  home?: string;
  /**
   * Connects lazily; called once per host. `login` takes the place of what the server knows; `via` is the
   * Via field of its requests.
   */
  remote: (host: string, login?: Login, via?: string) => Registry;
  /** False: what is here is not for the caller to read; publishing is another matter. */
  mayPull?: boolean;
}

/** Says the same whether the image is there or not, but for names without a registry. */
function notYours(name: string): SvcError {
  return new SvcError(
    "denied",
    `Cannot read ${name}: it is an image of this server, and no rule allows the caller to pull`,
    { help: "ask for the action pull in the server's policy", detail: { action: "pull" } },
  );
}

/** A source that nobody may read. */
function refusing(refusal: () => SvcError): ImageSource {
  const refuse = () => {
    throw refusal();
  };
  const refuseLater = () => Promise.reject(refusal());
  return {
    resolve: refuseLater,
    stat: refuseLater,
    get: refuseLater,
    tags: refuse,
    referrers: refuse,
  };
}

/** Where names without a registry part come from, as with every other tool. */
const DEFAULT_UPSTREAM = { name: "docker.io", alias: "index.docker.io", library: "library" };

/** Bytes of an image config: far more than any real one has. */
const MAX_CONFIG = 8 * 1024 * 1024;

interface Place {
  source: ImageSource;
  repository: string;
  /** The complete name. */
  name: string;
}

export function createImageResolver(options: ResolverOptions): ImageResolver {
  const { local, isOwn, home, mayPull = true } = options;
  const defaultHost = () => home ?? options.ownHost();
  const remotes = new Map<string, Registry>();

  function remote(host: string): Registry {
    let registry = remotes.get(host);
    if (!registry) {
      const via = mayPull ? undefined : MAY_NOT_PULL_VIA;
      remotes.set(host, registry = options.remote(host, undefined, via));
    }
    return registry;
  }

  const wanted = (reference: Reference) => reference.digest ?? reference.tag ?? "latest";
  const named = (reference: Reference, registry: string) =>
    formatReference({
      ...reference,
      registry,
      tag: reference.tag ?? (reference.digest ? undefined : "latest"),
    });

  function upstream(reference: Reference): Place {
    const { name, library } = DEFAULT_UPSTREAM;
    const { repository } = reference;
    const complete = repository.includes("/") ? repository : `${library}/${repository}`;
    return {
      source: remote(name),
      repository: complete,
      name: named({ ...reference, repository: complete }, name),
    };
  }

  function placeOf(reference: Reference, registry: string): Place {
    if (isOwn(registry)) {
      const name = named(reference, registry);
      const source = mayPull ? local : refusing(() => notYours(name));
      return { source, repository: reference.repository, name };
    }
    if (registry === DEFAULT_UPSTREAM.name || registry === DEFAULT_UPSTREAM.alias) {
      return upstream(reference);
    }
    return {
      source: remote(registry),
      repository: reference.repository,
      name: named(reference, registry),
    };
  }

  async function find(
    reference: Reference,
    read: ReadOptions,
  ): Promise<{ place: Place; root: ResolvedManifest }> {
    const key = wanted(reference);
    const at = async (place: Place) => {
      const root = await place.source.resolve(place.repository, key, read);
      return root && { place, root };
    };
    if (reference.registry !== undefined) {
      const place = placeOf(reference, reference.registry);
      const found = await at(place);
      if (found) return found;
      throw unknown(place.name, isOwn(reference.registry) ? "this server's registry" : undefined);
    }
    const atHome = home !== undefined && await at(placeOf(reference, home));
    if (atHome) return atHome;
    const own = await at({
      source: local,
      repository: reference.repository,
      name: named(reference, options.ownHost()),
    });
    if (own && !mayPull) throw notYours(own.place.name);
    if (own) return own;
    const place = upstream(reference);
    let found;
    try {
      found = await at(place);
    } catch (error) {
      if (read.signal?.aborted) throw error;
      const { message } = asSvcError(error);
      throw new SvcError(
        "upstream_failed",
        `Cannot resolve ${
          formatReference(reference)
        }: this server's registry does not have it, and ${DEFAULT_UPSTREAM.name} cannot be asked: ${message}`,
        {
          cause: error,
          help: "push the image here first, or write its name with its registry",
        },
      );
    }
    if (found) return found;
    throw unknown(
      formatReference(reference),
      `this server's registry and ${DEFAULT_UPSTREAM.name}`,
    );
  }

  return {
    forCaller: ({ logins, registry, mayPull }) =>
      createImageResolver({
        ...options,
        ...(mayPull === false && { mayPull }),
        ...(registry !== undefined && !isOwn(registry) && { home: registry }),
        ...(logins && {
          remote: (host, login, via) => options.remote(host, logins.get(host) ?? login, via),
        }),
      }),

    async resolve(text, { platform = hostPlatform(), pull, signal } = {}): Promise<ResolvedImage> {
      const { place, root } = await find(parseReference(text), { signal, fresh: pull });
      const { descriptor, manifest } = await onPlatform(place, root, platform, signal);
      const config = await readConfig(place, manifest, signal);
      const { name, source, repository } = place;
      const image = { name, source, repository, descriptor, manifest, config };
      return mayPull ? image : { ...image, apart: true };
    },

    place(text) {
      const reference = parseReference(text);
      const place = placeOf(reference, reference.registry ?? defaultHost());
      return { ...place, reference: wanted(reference) };
    },

    target(text) {
      const reference = parseReference(text);
      if (reference.digest !== undefined) {
        throw new SvcError(
          "reference_invalid",
          `Cannot publish as ${text}: a digest follows from the image and cannot be chosen`,
          { help: "write it as [host[:port]/]name[:tag]" },
        );
      }
      const registry = reference.registry ?? defaultHost();
      const tag = reference.tag ?? "latest";
      const ours = reference.registry === undefined && home === undefined || isOwn(registry);
      const place = ours
        ? { repository: reference.repository, name: named(reference, registry) }
        : placeOf(reference, registry);
      const sink = ours ? local : remote(
        place.name.startsWith(`${DEFAULT_UPSTREAM.name}/`) ? DEFAULT_UPSTREAM.name : registry,
      );
      return {
        sink,
        repository: place.repository,
        tag,
        name: place.name,
        ...(ours && mayPull && { own: local }),
      };
    },
  };
}

function unknown(name: string, where?: string): SvcError {
  return new SvcError(
    "manifest_unknown",
    `Cannot resolve ${name}: ${where ?? "its registry"} does not have it`,
    { help: "check the name and the tag" },
  );
}

const INDEX_TYPES = new Set<string>([MEDIA.index, MEDIA.dockerList]);

function parseManifest<T>(place: Place, { bytes, descriptor }: ResolvedManifest): T {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as T;
  } catch (cause) {
    throw new SvcError(
      "manifest_invalid",
      `Cannot read manifest ${descriptor.digest} of ${place.name}: it is not JSON`,
      { cause },
    );
  }
}

async function onPlatform(
  place: Place,
  root: ResolvedManifest,
  platform: Platform,
  signal?: AbortSignal,
): Promise<{ descriptor: Descriptor; manifest: Manifest }> {
  let current = root;
  // An index may hold indexes; deeper than this is nobody's image.
  for (let depth = 0; depth < 4; depth++) {
    if (!INDEX_TYPES.has(current.descriptor.mediaType)) {
      const manifest = parseManifest<Manifest>(place, current);
      if (!manifest.config?.digest || !Array.isArray(manifest.layers)) break;
      return { descriptor: current.descriptor, manifest };
    }
    const entry = selectPlatform(parseManifest<Index>(place, current), platform);
    const next = entry && await place.source.resolve(place.repository, entry.digest, { signal });
    if (!next) {
      const { os, architecture, variant } = platform;
      const text = [os, architecture, variant].filter(Boolean).join("/");
      throw new SvcError(
        "manifest_unknown",
        `Cannot resolve ${place.name}: it has no image for ${text}`,
        { help: "choose another platform or another image" },
      );
    }
    current = next;
  }
  throw new SvcError(
    "manifest_invalid",
    `Cannot use ${place.name}: ${root.descriptor.mediaType} is not a container image`,
    { help: "name an image, not another kind of artifact" },
  );
}

async function readConfig(
  place: Place,
  { config }: Manifest,
  signal?: AbortSignal,
): Promise<ImageConfig> {
  if (config.size > MAX_CONFIG) {
    throw new SvcError("manifest_invalid", `Cannot use ${place.name}: its config is too large`);
  }
  const body = await place.source.get(place.repository, config.digest, { signal });
  if (!body) {
    throw new SvcError(
      "blob_unknown",
      `Cannot use ${place.name}: its config ${config.digest} is missing`,
    );
  }
  const text = await new Response(body.stream() as ReadableStream<Uint8Array<ArrayBuffer>>).text();
  try {
    const parsed = JSON.parse(text) as ImageConfig;
    if (parsed?.rootfs?.type === "layers" && Array.isArray(parsed.rootfs.diff_ids)) return parsed;
  } catch {
    // Reported below like a config of another kind.
  }
  throw new SvcError(
    "manifest_invalid",
    `Cannot use ${place.name}: its config is not a container image's`,
    { help: "name an image, not another kind of artifact" },
  );
}
