/**
 * What the registry's handlers work on: a reader, and a writer where images can be pushed. A content store and
 * a mirror are both; a view over an engine's images may be only a reader.
 */
import type {
  BlobBody,
  ByteRange,
  ImageSink,
  ImageSource,
  ReadOptions,
  ResolvedManifest,
} from "../oci/image.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { ContentStore } from "../store/content_store.ts";

/** Read options of a registry's reader. */
export interface ReaderOptions extends ReadOptions {
  /**
   * The caller may be about to push what is missing: an upstream that cannot be reached then counts as not
   * having it, instead of failing the request.
   */
  probe?: boolean;
  /** The request's Via field: the mirrors that it came through. */
  via?: string;
}

/** Names, tags and referrers come in byte order. A missing item is undefined or an empty listing, never an error. */
export interface RegistryReader
  extends ImageSource, Pick<ContentStore, "repositories" | "signedUrl"> {
  resolve(
    repository: string,
    reference: string,
    options?: ReaderOptions,
  ): Promise<ResolvedManifest | undefined>;
  stat(
    repository: string,
    digest: Digest,
    options?: ReaderOptions,
  ): Promise<{ size: number } | undefined>;
  get(
    repository: string,
    digest: Digest,
    options?: ReaderOptions & { range?: ByteRange },
  ): Promise<BlobBody | undefined>;
  /** Strictly after `after`. */
  tags(repository: string, options?: ReaderOptions & { after?: string }): AsyncIterable<string>;
  /** By their digests, strictly after `after`. */
  referrers(
    repository: string,
    digest: Digest,
    options?: ReaderOptions & { after?: Digest },
  ): AsyncIterable<Descriptor>;
  /** Throws the reason why nothing can be read now. Absent: nothing can be in the way. */
  ready?(options?: { signal?: AbortSignal }): Promise<void>;
  /** True where the repository has a manifest, with or without a tag. */
  hasRepository(repository: string, options?: ReaderOptions): Promise<boolean>;
}

/** Pushes and deletes, as {@linkcode ContentStore} describes them. */
export type RegistryWriter = Pick<
  ContentStore,
  "startUpload" | "openUpload" | "mountBlob" | "publish" | "deleteBlob" | "deleteManifest"
>;

export interface RegistryView {
  reader: RegistryReader;
  /** Absent: pushes and deletes are answered 405. */
  writer?: RegistryWriter;
}

/** Reader and writer, and the sink for images that the server builds. */
export interface RegistryStore
  extends RegistryReader, Omit<RegistryWriter, "mountBlob">, ImageSink {}
