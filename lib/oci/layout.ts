/** Images in an OCI image layout (OCI Image Specification 1.1, "Image Layout"), in a folder or archive. */
import { SvcError } from "../base/errors.ts";
import { digestOf, isDigest, parseDigest, verified } from "./digest.ts";
import type { BlobBody, ByteRange, ImageSource, ReadOptions, ResolvedManifest } from "./image.ts";
import { type LayoutFiles, readDocument, readWhole } from "./layout_files.ts";
import { manifestKind, MAX_MANIFEST_BYTES, parseManifest } from "./manifest.ts";
import type { Descriptor, Digest, Index } from "./types.ts";

/** Annotation with the name of an index entry. */
export const REF_NAME = "org.opencontainers.image.ref.name";
/** Annotation with the complete name, in archives of containerd and docker. */
export const IMAGE_NAME = "io.containerd.image.name";

export const LAYOUT_VERSION = '{"imageLayoutVersion":"1.0.0"}';

/** An image source with a few images; it ignores repository names. */
export interface PackedImages extends ImageSource {
  readonly label: string;
  /** The images with their names, where they have any, in the order of the document. */
  readonly images: readonly { name?: string; digest: Digest }[];
}

/** Where the specification puts a blob. */
export function blobPath(digest: Digest): string {
  const { algorithm, hex } = parseDigest(digest);
  return `blobs/${algorithm}/${hex}`;
}

/** A blob in `files`; verified as it passes where it is read as a whole. */
export function packedBlob(
  files: LayoutFiles,
  path: string,
  digest: Digest,
  size: number,
  options: ReadOptions & { range?: ByteRange } = {},
): BlobBody {
  const { range, signal } = options;
  const start = Math.min(range?.start ?? 0, size);
  const end = Math.min((range?.end ?? size - 1) + 1, size);
  return {
    size: end - start,
    stream: () => {
      const bytes = files.open(path, start, end, signal);
      return range ? bytes : verified(bytes, digest, size);
    },
  };
}

const invalid = (label: string, why: string) =>
  new SvcError("archive_invalid", `Cannot read OCI layout ${label}: ${why}`);

/** The well-formed entries of index.json. */
export function indexEntries(document: unknown, label: string): Descriptor[] {
  const manifests = (document as Partial<Index> | null)?.manifests;
  if (!Array.isArray(manifests)) throw invalid(label, "index.json has no list of manifests");
  for (const [at, entry] of manifests.entries()) {
    const whole = typeof entry?.mediaType === "string" && isDigest(String(entry.digest)) &&
      Number.isSafeInteger(entry.size) && entry.size >= 0;
    if (!whole) throw invalid(label, `index.json: manifests[${at}] is not a descriptor`);
  }
  return manifests;
}

const nameOf = (entry: Descriptor) => entry.annotations?.[REF_NAME];

/** The manifest under a reference, checked against its digest. */
async function manifestOf(
  files: LayoutFiles,
  entries: readonly Descriptor[],
  reference: string,
  call: ReadOptions = {},
): Promise<ResolvedManifest | undefined> {
  const { label } = files;
  const entry = isDigest(reference)
    ? entries.find((entry) => entry.digest === reference)
    : entries.find((entry) => nameOf(entry) === reference) ??
      entries.find((entry) => entry.annotations?.[IMAGE_NAME] === reference);
  const digest = entry?.digest ?? (isDigest(reference) ? reference : undefined);
  if (!digest) return undefined;
  const size = await files.size(blobPath(digest));
  if (size === undefined) {
    // In a sparse layout the index names manifests that are not in the layout.
    if (!entry || isDigest(reference)) return undefined;
    throw invalid(label, `the manifest ${digest} of ${reference} is missing`);
  }
  if (size > MAX_MANIFEST_BYTES) throw invalid(label, `${digest} is too large for a manifest`);
  const bytes = (await readWhole(files, blobPath(digest), call.signal))!;
  const actual = digestOf(bytes, parseDigest(digest).algorithm);
  if (actual !== digest) {
    throw new SvcError(
      "digest_invalid",
      `Cannot read ${label}: the manifest ${digest} has the digest ${actual}`,
    );
  }
  const mediaType = entry?.mediaType ?? parseManifest(bytes).mediaType;
  return { descriptor: { mediaType, digest, size }, bytes };
}

/** The entries of the index of a layout whose version is known. */
async function readIndex(files: LayoutFiles, options: ReadOptions): Promise<Descriptor[]> {
  const { label } = files;
  const version = await readDocument(files, "oci-layout", options.signal) as
    | { imageLayoutVersion?: unknown }
    | undefined;
  const document = await readDocument(files, "index.json", options.signal);
  if (document === undefined) throw invalid(label, "it has no index.json");
  if (typeof version?.imageLayoutVersion !== "string") throw invalid(label, "it has no oci-layout");
  if (!version.imageLayoutVersion.startsWith("1.")) {
    throw invalid(label, `its version is ${version.imageLayoutVersion}, not 1`);
  }
  return indexEntries(document, label);
}

/**
 * Opens a layout. Throws `archive_invalid` where there is none; a damaged blob is noticed when it is read
 * (`digest_invalid`, `size_invalid`).
 */
export async function openLayout(
  files: LayoutFiles,
  options: ReadOptions = {},
): Promise<PackedImages> {
  const { label } = files;
  const entries = await readIndex(files, options);
  const manifest = (reference: string, call?: ReadOptions) =>
    manifestOf(files, entries, reference, call);
  const named = entries.filter((entry) => nameOf(entry) ?? entry.annotations?.[IMAGE_NAME]);
  return {
    label,
    // Referrers are listed without a name: beside named images they do not count as images.
    images: (named.length > 0 ? named : entries).map((entry) => ({
      name: nameOf(entry) ?? entry.annotations?.[IMAGE_NAME],
      digest: entry.digest,
    })),
    resolve: (_repository, reference, call) => manifest(reference, call),
    async stat(_repository, digest) {
      const size = await files.size(blobPath(digest));
      return size === undefined ? undefined : { size };
    },
    async get(_repository, digest, call) {
      const size = await files.size(blobPath(digest));
      if (size === undefined) return undefined;
      return packedBlob(files, blobPath(digest), digest, size, call);
    },
    async *tags(_repository, call) {
      const names = named.flatMap((entry) => nameOf(entry) ?? []);
      for (const name of [...new Set(names)].sort()) {
        if (call?.after === undefined || name > call.after) yield name;
      }
    },
    async *referrers(_repository, digest, call) {
      for (const entry of entries) {
        if (!manifestKind(entry.mediaType)) continue;
        const found = await manifest(entry.digest, call);
        if (!found) continue;
        const { subject, artifactType, annotations } = parseManifest(found.bytes, entry.mediaType);
        if (subject?.digest === digest) {
          yield { ...found.descriptor, artifactType, ...(annotations && { annotations }) };
        }
      }
    },
  };
}
