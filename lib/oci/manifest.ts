/**
 * Manifests as a registry has to understand them: their kind, what they refer to, and whether they are well
 * formed (OCI Image Specification 1.1 "Image Manifest" and "Image Index", docker schema 2).
 */
import { SvcError } from "../base/errors.ts";
import { isDigest } from "./digest.ts";
import { isDeeper } from "./nesting.ts";
import { type Descriptor, type Index, type Manifest, MEDIA } from "./types.ts";

/** Largest manifest, in bytes: what every registry must accept, and the most that this one accepts. */
export const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;

/** Deepest nesting; no manifest or extension is as deep. */
const MAX_DEPTH = 100;

const KINDS: ReadonlyMap<string, "image" | "index"> = new Map([
  [MEDIA.manifest, "image"],
  [MEDIA.dockerManifest, "image"],
  [MEDIA.index, "index"],
  [MEDIA.dockerList, "index"],
]);

/** Layers that are fetched from their `urls` and need not be in the registry. */
const FOREIGN = /\.foreign\.|\.nondistributable\./;

export type ParsedManifest =
  & {
    mediaType: string;
    /** Manifests that must be in the same repository. */
    manifests: Descriptor[];
    /** Blobs that must exist. */
    blobs: Descriptor[];
    /** The subject; it need not exist. */
    subject?: Descriptor;
    /** As in the referrers API: the manifest's artifact type, else the config's media type. */
    artifactType?: string;
    annotations?: Record<string, string>;
  }
  & ({ kind: "image"; document: Manifest } | { kind: "index"; document: Index });

/** "image", "index", or undefined for what is not a manifest. */
export function manifestKind(mediaType: string): "image" | "index" | undefined {
  return KINDS.get(mediaType);
}

function invalid(why: string, cause?: unknown): SvcError {
  return new SvcError("manifest_invalid", `Cannot accept the manifest: ${why}`, { cause });
}

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function descriptor(value: unknown, path: string): Descriptor {
  if (!isObject(value)) throw invalid(`${path}: expected a descriptor`);
  const { mediaType, digest, size } = value;
  if (typeof mediaType !== "string" || mediaType === "") {
    throw invalid(`${path}.mediaType: expected a media type`);
  }
  if (typeof digest !== "string" || !isDigest(digest)) {
    throw invalid(`${path}.digest: expected a sha256 or sha512 digest`);
  }
  if (!Number.isSafeInteger(size) || (size as number) < 0) {
    throw invalid(`${path}.size: expected a number of bytes`);
  }
  return value as unknown as Descriptor;
}

function descriptors(value: unknown, path: string): Descriptor[] {
  if (!Array.isArray(value)) throw invalid(`${path}: expected a list of descriptors`);
  return value.map((item, index) => descriptor(item, `${path}[${index}]`));
}

function annotationsOf(document: Json): Record<string, string> | undefined {
  const { annotations } = document;
  if (annotations === undefined || annotations === null) return undefined;
  if (!isObject(annotations) || Object.values(annotations).some((v) => typeof v !== "string")) {
    throw invalid("annotations: expected a map of strings");
  }
  return annotations as Record<string, string>;
}

function text(document: Json, name: string): string | undefined {
  const value = document[name];
  if (value === undefined || value === "") return undefined;
  if (typeof value !== "string") throw invalid(`${name}: expected a string`);
  return value;
}

/** Shortens a text of the sender for a message to the sender. */
const short = (text: string): string => text.length > 160 ? `${text.slice(0, 160)}…` : text;

function typeOf(document: Json, declared: string | undefined): string {
  const own = text(document, "mediaType");
  if (declared && own && declared !== own) {
    throw invalid(`it was sent as ${short(declared)} and says of itself ${short(own)}`);
  }
  const type = declared ?? own ?? ("manifests" in document ? MEDIA.index : MEDIA.manifest);
  if (!KINDS.has(type)) {
    throw invalid(`its media type ${short(type)} is none of ${[...KINDS.keys()].join(", ")}`);
  }
  return type;
}

/**
 * Reads and validates a manifest or index. `declared` is the media type it was sent as; without it the
 * document's own counts. Throws `manifest_invalid`, or `manifest_too_large` over 4 MiB.
 */
export function parseManifest(bytes: Uint8Array, declared?: string): ParsedManifest {
  if (bytes.length > MAX_MANIFEST_BYTES) {
    throw new SvcError(
      "manifest_too_large",
      `Cannot accept the manifest: it has ${bytes.length} bytes, the limit is ${MAX_MANIFEST_BYTES}`,
    );
  }
  if (isDeeper(bytes, MAX_DEPTH)) throw invalid(`it is nested more than ${MAX_DEPTH} deep`);
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw invalid(`it is not JSON: ${(error as Error).message}`, error);
  }
  if (!isObject(document)) throw invalid("it is not a JSON object");
  if (document.schemaVersion !== 2) throw invalid("schemaVersion: expected 2");
  const mediaType = typeOf(document, declared);
  const subject = document.subject === undefined || document.subject === null
    ? undefined
    : descriptor(document.subject, "subject");
  const shared = {
    mediaType,
    ...(subject && { subject }),
    annotations: annotationsOf(document),
  };
  const artifactType = text(document, "artifactType");
  if (KINDS.get(mediaType) === "index") {
    // A document that is both could be read as two different images of one digest.
    if ("layers" in document || "config" in document) throw invalid("an index has no layers");
    const entries = descriptors(document.manifests, "manifests");
    return {
      ...shared,
      kind: "index",
      document: document as unknown as Index,
      manifests: entries.filter((entry) => KINDS.has(entry.mediaType)),
      blobs: entries.filter((entry) => !KINDS.has(entry.mediaType)),
      artifactType,
    };
  }
  if ("manifests" in document) throw invalid("an image manifest has no manifests");
  const config = descriptor(document.config, "config");
  const layers = descriptors(document.layers, "layers");
  return {
    ...shared,
    kind: "image",
    document: document as unknown as Manifest,
    manifests: [],
    blobs: [config, ...layers.filter((layer) => !FOREIGN.test(layer.mediaType))],
    artifactType: artifactType ?? config.mediaType,
  };
}
