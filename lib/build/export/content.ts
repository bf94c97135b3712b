/** An image ready for delivery: its documents, and how to read each blob. */
import type { ImageSource } from "../../oci/image.ts";
import { digestOf } from "../../oci/digest.ts";
import type { Descriptor, Digest, Platform } from "../../oci/types.ts";

/** A manifest or an index. */
export interface Document {
  descriptor: Descriptor;
  bytes: Uint8Array<ArrayBuffer>;
}

export interface ContentBlob {
  descriptor: Descriptor;
  /** May be called several times: each output reads for itself. */
  open(signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** A file that holds the blob and is not written to any more. */
  file?(signal: AbortSignal): Promise<string>;
  /** Where the blob comes from: a registry that has it can mount it. */
  origin?: { source: ImageSource; repository: string };
}

export interface PlatformContent {
  platform: Platform;
  manifest: Descriptor;
  config: Descriptor;
  /** Digests of the layers' archives, the base image's first. */
  diffIDs: Digest[];
  /** Bytes of all layers, packed. */
  size: number;
}

export interface ImageContent {
  /** The document that names refer to: the manifest of a single platform, else an index. */
  root: Document;
  /** The documents that the index lists, in its order. */
  children: Document[];
  /** Configs and layers, each once. */
  blobs: ContentBlob[];
  platforms: PlatformContent[];
}

export const encodeDocument = (document: unknown): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(JSON.stringify(document));

export function documentOf(mediaType: string, value: unknown): Document {
  const bytes = encodeDocument(value);
  return { descriptor: { mediaType, digest: digestOf(bytes), size: bytes.length }, bytes };
}

/** A blob that is in memory. */
export function blobOf(mediaType: string, bytes: Uint8Array<ArrayBuffer>): ContentBlob {
  return {
    descriptor: { mediaType, digest: digestOf(bytes), size: bytes.length },
    open: () => Promise.resolve(new Blob([bytes]).stream()),
  };
}
