/**
 * From an image's name to its bytes, wherever they are: the registry in this process (no network), an
 * upstream by host name, or the default upstream. Builds and deploys resolve through this alone.
 */
import type { ImageSink, ImageSource, ReadOptions } from "./image.ts";
import type { Descriptor, ImageConfig, Manifest, Platform } from "./types.ts";

export interface ResolvedImage {
  /** Complete name: registry, repository, tag or digest. */
  name: string;
  source: ImageSource;
  /** Repository within `source`. */
  repository: string;
  /** The manifest of the asked platform, after any index. */
  descriptor: Descriptor;
  manifest: Manifest;
  config: ImageConfig;
  /**
   * Whoever names it may not read what is here: its layers are its source's to give, and what was unpacked or
   * built of layers with the same ids is not taken for them.
   */
  apart?: true;
}

export interface ResolveOptions extends ReadOptions {
  platform?: Platform;
  /** Asks the registry what a tag means now, whatever is known of it. */
  pull?: boolean;
}

/** What is known of an account at a registry, as lib/remote/auth.ts has it. */
export type Login =
  | { username: string; password: string }
  | { token: string }
  | { identityToken: string };

/** What the caller of a build or a deployment brings to the resolving of names. */
export interface ImageCaller {
  /** False: images of this server are not for the caller to read, by whatever name. */
  mayPull?: boolean;
  /** By host; other hosts as before. */
  logins?: ReadonlyMap<string, Login>;
  /** Host of the registry that names without one mean; default the own one. */
  registry?: string;
}

export interface ImageResolver {
  /** The same as the caller sees it. Absent: there are no other hosts. */
  forCaller?(caller: ImageCaller): ImageResolver;
  /**
   * Throws `reference_invalid`, `manifest_unknown` (no such image, or none for the platform) or
   * `upstream_failed`.
   */
  resolve(name: string, options?: ResolveOptions): Promise<ResolvedImage>;
  /**
   * Where anything of that name would be, whatever it is; nothing is asked for yet. Throws
   * `reference_invalid`.
   */
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
    /** The sink's read side, where it is in this process: its bytes cross no network. */
    own?: ImageSource;
  };
}
