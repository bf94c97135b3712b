/** Pushes into a container engine that keeps images as registries do: the writing half of the ability `images`. */
import type { ImageSink } from "../oci/image.ts";
import type { Digest } from "../oci/types.ts";
import type { ContentStore } from "./content_store.ts";
import type { CallOptions } from "./object_store.ts";
import type { PublishOptions } from "./publication.ts";

/**
 * Repositories are those of this server's registry; `name` is the engine's name for one, with a registry and without
 * a tag. What the engine got otherwise is read, and never changed.
 */
export interface EngineWriter
  extends
    Pick<ContentStore, "startUpload" | "openUpload" | "deleteBlob">,
    Pick<ImageSink, "putBlob"> {
  /** Existing content; it stays for a push that counts on it. Undefined where it is missing. */
  hold(
    repository: string,
    digest: Digest,
    options?: CallOptions,
  ): Promise<{ size: number } | undefined>;
  /** Like `publish` of ContentStore; without tags the image's name is its digest. */
  publish(
    repository: string,
    mediaType: string | undefined,
    bytes: Uint8Array,
    options: PublishOptions & { name: string },
  ): ReturnType<ContentStore["publish"]>;
  /**
   * By tag: the name goes. By digest: all names of the repository that lead to it. False: there is none. Throws
   * `registry_read_only` for an image that was not pushed here, `blob_in_use` for a part of an index.
   */
  deleteManifest(name: string, reference: string, options?: CallOptions): Promise<boolean>;
  /**
   * The engine's names, without tags, and which were pushed here. `repository`: only those that may mean it, with
   * or without a registry; `tag`: only those that have it.
   */
  names(
    options?: CallOptions & { repository?: string; tag?: string },
  ): Promise<{ name: string; pushed: boolean }[]>;
}
