/**
 * The content-addressable store: digest rules once, above every {@linkcode ObjectStore}.
 * Key layout: DESIGN.md section 7. Interface only; `createContentStore` is in content.ts.
 */
import type {
  BlobBody,
  ByteRange,
  ImageSink,
  ImageSource,
  ResolvedManifest,
} from "../oci/image.ts";
import type { DigestAlgorithm } from "../oci/digest.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { CallOptions } from "./object_store.ts";
import type { PublishOptions } from "./publication.ts";
import type { Upload } from "./upload.ts";
import type { Upkeep } from "./upkeep.ts";

/**
 * `probe`: a client asks before it pushes. A blob or manifest that is reported to it is kept for its push
 * (gc/guard.ts).
 */
export interface LookOptions extends CallOptions {
  probe?: boolean;
}

export interface ContentStore extends ImageSource, ImageSink, AsyncDisposable {
  /** Collections, checks and figures. */
  readonly upkeep: Upkeep;
  resolve(
    repository: string,
    reference: string,
    options?: LookOptions,
  ): Promise<ResolvedManifest | undefined>;
  stat(
    repository: string,
    digest: Digest,
    options?: LookOptions,
  ): Promise<{ size: number } | undefined>;
  /** `algorithm` is a hint: the digest at `commit` decides, at the price of a second reading. */
  startUpload(
    repository: string,
    options?: CallOptions & { algorithm?: DigestAlgorithm },
  ): Promise<Upload>;
  /** Undefined where the upload is missing or belongs to another repository. */
  openUpload(repository: string, id: string, options?: CallOptions): Promise<Upload | undefined>;
  get(
    repository: string,
    digest: Digest,
    options?: CallOptions & { range?: ByteRange },
  ): Promise<BlobBody | undefined>;
  /**
   * An address of the storage from which anyone can get the blob for `seconds`. Undefined: the blob is not
   * here, or the storage's credentials cannot sign. Absent: the storage has no addresses.
   */
  signedUrl?(
    digest: Digest,
    options: CallOptions & { seconds: number },
  ): Promise<string | undefined>;
  /** Drops uploads that nobody touched for `idleMs`; returns how many. For a timer of the server. */
  expireUploads(idleMs: number, options?: CallOptions): Promise<number>;
  /**
   * False where the blob did not exist. All repositories share blobs: a blob that any manifest refers to stays,
   * and `blob_in_use` names the manifest's repository.
   */
  deleteBlob(repository: string, digest: Digest, options?: CallOptions): Promise<boolean>;
  /** By tag: only the tag goes. By digest: the manifest, its tags and its referrer entry go. */
  deleteManifest(repository: string, reference: string, options?: CallOptions): Promise<boolean>;
  /** In byte order of their digests, strictly after `after`. */
  referrers(
    repository: string,
    digest: Digest,
    options?: CallOptions & { after?: Digest },
  ): AsyncIterable<Descriptor>;
  /** True once a manifest was published in it. */
  hasRepository(repository: string, options?: CallOptions): Promise<boolean>;
  /** Names in byte order, strictly after `after`. */
  repositories(options?: CallOptions & { after?: string }): AsyncIterable<string>;
  /**
   * Like `putManifest` of ImageSink, with what the HTTP surface has to answer. Without `mediaType` the
   * document's own counts.
   */
  publish(
    repository: string,
    mediaType: string | undefined,
    bytes: Uint8Array,
    options?: PublishOptions,
  ): Promise<{ descriptor: Descriptor; subject?: Digest }>;
}
