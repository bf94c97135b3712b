/**
 * Where images are read from and written to. The content store, a remote registry, a mirror and a view of an
 * engine's images are all an {@linkcode ImageSource}; builds and deployments use nothing else.
 */
import type { Descriptor, Digest } from "./types.ts";

/** Bytes whose number is known before they are read. */
export interface BlobBody {
  /** Bytes that `stream` will yield. */
  size: number;
  /**
   * Opens the bytes; may be called once. A stream of a whole blob is verified as it passes: where the bytes
   * do not match the digest, it errors with `digest_invalid` instead of ending.
   */
  stream(): ReadableStream<Uint8Array>;
  /** A local file that holds these bytes from `offset` on, where there is one; for sendfile. */
  file?: { path: string; offset: number };
}

export interface ResolvedManifest {
  /** Media type, digest and size of `bytes`. */
  descriptor: Descriptor;
  bytes: Uint8Array;
  /**
   * True where a tag's origin could not be reached, and this is the manifest that the tag named before (RFC
   * 9111 4.2.4).
   */
  stale?: boolean;
}

export interface ByteRange {
  /** First byte, from 0. */
  start: number;
  /** Last byte, inclusive; absent means to the end. */
  end?: number;
}

export interface ReadOptions {
  signal?: AbortSignal;
  /** A mirror asks its upstream about a tag, even right after it has done so. */
  fresh?: boolean;
}

/** Read side. A missing name, tag or digest is `undefined`, never an error; other failures throw. */
export interface ImageSource {
  /** The manifest of a tag ("v1") or digest ("sha256:…"). */
  resolve(
    repository: string,
    reference: string,
    options?: ReadOptions,
  ): Promise<ResolvedManifest | undefined>;
  stat(
    repository: string,
    digest: Digest,
    options?: ReadOptions,
  ): Promise<{ size: number } | undefined>;
  get(
    repository: string,
    digest: Digest,
    options?: ReadOptions & { range?: ByteRange },
  ): Promise<BlobBody | undefined>;
  /** Tags in byte order; an unknown repository yields nothing. */
  tags(repository: string, options?: ReadOptions & { after?: string }): AsyncIterable<string>;
  /** Descriptors of the manifests whose subject is `digest`. */
  referrers(repository: string, digest: Digest, options?: ReadOptions): AsyncIterable<Descriptor>;
}

/** Write side: what a build needs to deliver an image. Every call is idempotent. */
export interface ImageSink {
  hasBlob(repository: string, digest: Digest, options?: ReadOptions): Promise<boolean>;
  /** Stores and verifies; throws `digest_invalid` or `size_invalid` and keeps nothing on mismatch. */
  putBlob(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    body: ReadableStream<Uint8Array>,
    options?: ReadOptions,
  ): Promise<void>;
  /**
   * {@linkcode putBlob} for a file that the caller has hashed and nobody writes to any more. Stores it
   * without reading it, where possible; false where that is not possible and nothing was stored.
   */
  adoptBlob?(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    path: string,
    options?: ReadOptions,
  ): Promise<boolean>;
  /** Adds another repository's blob to this one; false where the blob is missing. */
  mountBlob?(
    repository: string,
    digest: Digest,
    from: string,
    options?: ReadOptions,
  ): Promise<boolean>;
  /** Stores a manifest under its digest and `tags`; durable when it returns. */
  putManifest(
    repository: string,
    mediaType: string,
    bytes: Uint8Array,
    tags: string[],
    options?: ReadOptions,
  ): Promise<Descriptor>;
}
