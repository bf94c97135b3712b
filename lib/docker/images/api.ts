/** What the registry view and `load` need of an engine's image routes; the Docker Engine API has them. */
import type { Digest, Platform } from "../../oci/types.ts";

/** An image of the engine. */
export interface EngineImage {
  /** The digest of the config; in docker's containerd image store, of the manifest or index. */
  id: Digest;
  /** The names with their tags, as the engine writes them: "app:v1", "ghcr.io/org/tool:latest". */
  names: readonly string[];
}

export interface ImageApi {
  /** All images, unnamed ones too. */
  list(signal?: AbortSignal): Promise<EngineImage[]>;
  /** By a name with a tag, completed as the engine completes names, or by an id. Missing: undefined. */
  find(
    name: string,
    signal?: AbortSignal,
  ): Promise<{ id: Digest; diffIDs: readonly Digest[] } | undefined>;
  /** The archive of one image. It errors where the engine goes away before its end. */
  export(id: Digest, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** Loads an archive. Throws the engine's words where it refuses it. */
  load(archive: ReadableStream<Uint8Array>, signal?: AbortSignal): Promise<void>;
  /** Gives an image one more name. The name leaves an image that had it. */
  tag(id: Digest, name: string, signal?: AbortSignal): Promise<void>;
  /** Of the images that run there. */
  platform(): Promise<Platform>;
  /** True where the store keeps manifests as they were pushed; else it keeps configs and layers alone. */
  keepsManifests(signal?: AbortSignal): Promise<boolean>;
  /** True where the engine unpacks layers that are packed with zstd. */
  takesZstd(): Promise<boolean>;
}
