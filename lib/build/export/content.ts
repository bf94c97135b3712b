/** An image ready to be delivered: its documents, and where each blob's bytes come from. */
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
  /** May be called again: each target reads for itself. */
  open(signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** A file that holds it, and that nobody writes to any more. */
  file?(signal: AbortSignal): Promise<string>;
  /** Where it comes from: a registry that has it may be told to mount it. */
  origin?: { source: ImageSource; repository: string };
}

export interface PlatformContent {
  platform: Platform;
  manifest: Descriptor;
  config: Descriptor;
  /** Of the layers' archives, the base image's first. */
  diffIDs: Digest[];
  /** Bytes of all layers, packed. */
  size: number;
}

export interface ImageContent {
  /** What names stand for: the manifest of a single platform, else an index. */
  root: Document;
  /** What an index names, in its order. */
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
