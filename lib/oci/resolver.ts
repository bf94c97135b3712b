/**
 * Finds an image by its name: in the registry of this process (no network), at an upstream by host name, or
 * at the default upstream. Builds and deployments find images only here.
 */
import type { ImageSink, ImageSource, ReadOptions } from "./image.ts";
import type { Descriptor, Digest, ImageConfig, Manifest, Platform } from "./types.ts";

export interface ResolvedImage {
  /** Complete name: registry, repository, tag or digest. */
  name: string;
  source: ImageSource;
  /** Repository within `source`. */
  repository: string;
  /** The manifest of the requested platform, after any index was resolved. */
  descriptor: Descriptor;
  manifest: Manifest;
  config: ImageConfig;
  /**
   * The caller may not read this server's images. The layers are then read from the image's own source, and
   * snapshots and results that exist for layers of the same ids are not used.
   */
  apart?: true;
}

export interface ResolveOptions extends ReadOptions {
  platform?: Platform;
  /** Asks the registry what a tag means now, without the cache. */
  pull?: boolean;
}

/** Credentials of an account at a registry, as in lib/remote/auth.ts. */
export type Login =
  | { username: string; password: string }
  | { token: string }
  | { identityToken: string };

/** What the caller of a build or a deployment changes in the resolution of names. */
export interface ImageCaller {
  /** False: the caller may not read images of this server, under any name. */
  mayPull?: boolean;
  /** Logins by host; for other hosts the server's own apply. */
  logins?: ReadonlyMap<string, Login>;
  /** Host for names without a registry; default: the server's own. */
  registry?: string;
}

/** Idempotent; parts that the engine has are not read. */
export type LoadImage = (image: ImageToLoad, signal?: AbortSignal) => Promise<void>;

/** An image for an engine that takes images as a whole. */
export interface ImageToLoad {
  source: ImageSource;
  repository: string;
  /** The digest of the manifest or index. */
  digest: Digest;
  /** The names that the image gets, with their tags. */
  names: readonly string[];
}

export interface ImageResolver {
  /** The resolver for one caller. Absent: this resolver knows no other hosts. */
  forCaller?(caller: ImageCaller): ImageResolver;
  /**
   * Throws `reference_invalid`, `manifest_unknown` (no such image, or none for the platform) or
   * `upstream_failed`.
   */
  resolve(name: string, options?: ResolveOptions): Promise<ResolvedImage>;
  /**
   * The name by which the deploy backend's engine has the image, where what the name means is the engine's to
   * say: nothing has to be loaded then, or read. Undefined: resolve the name.
   */
  held?(name: string, options?: ReadOptions): Promise<string | undefined>;
  /** Where an image of that name would be; asks no registry yet. Throws `reference_invalid`. */
  place(name: string): {
    source: ImageSource;
    repository: string;
    /** Tag or digest. */
    reference: string;
    /** The complete name. */
    name: string;
  };
  /** Where an image of that name is pushed to. Throws `reference_invalid`. */
  target(name: string): {
    sink: ImageSink;
    repository: string;
    tag: string;
    name: string;
    /** Reads what was pushed, where the sink is in this process: its bytes cross no network. */
    own?: ImageSource;
    /** Takes whole images in the sink's place, which takes nothing then; under these names. */
    load?: { names: readonly string[]; load: LoadImage };
  };
}
