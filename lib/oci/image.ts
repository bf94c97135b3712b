/**
 * Where images are read from and written to. The content store, a remote registry, a mirror and a view
 * over an engine's images are all an {@linkcode ImageSource}; builds and deploys know nothing else.
 */
import type { Descriptor, Digest } from "./types.ts";

/** Bytes whose size is known before they move. */
export interface BlobBody {
  /** Bytes that `stream` will yield. */
  size: number;
  /**
   * Opens the bytes; may be called once. A whole-blob stream is verified while it passes and errors
   * (`digest_invalid`) instead of ending when the bytes are not what the digest says.
   */
  stream(): ReadableStream<Uint8Array>;
  /** A local file that holds exactly these bytes at `offset`, where there is one: for sendfile. */
  file?: { path: string; offset: number };
}

export interface ResolvedManifest {
  /** Media type, digest and size of `bytes`. */
  descriptor: Descriptor;
  bytes: Uint8Array;
  /**
   * True where a tag's origin could not be asked, and this is what it named when it last could
   * (RFC 9111 4.2.4).
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
  /** A mirror asks its upstream about a tag even where it did a moment ago. */
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
   * {@linkcode putBlob} of a file which the caller has hashed, and which nobody writes to any more: stored
   * without being read where that can be done; false where it cannot, and nothing was done.
   */
  adoptBlob?(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    path: string,
    options?: ReadOptions,
  ): Promise<boolean>;
  /** Makes a blob of another repository part of this one; false where it is not there. */
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
