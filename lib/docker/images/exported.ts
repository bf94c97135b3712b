/**
 * From an engine's export to an image as a registry serves it. The archive is kept as it came; documents are
 * kept apart from it, and blobs are read from where they lie in it. Layers stay uncompressed, as engines export
 * them: a digest then follows from the image id alone, and nothing has to be computed for a pull.
 */
import { SvcError } from "../../base/errors.ts";
import { type ArchiveFiles, cleanPath, openArchive } from "../../oci/archive.ts";
import { openDockerArchive } from "../../oci/archive_docker.ts";
import { createDigester, type Digester } from "../../oci/digest.ts";
import { blobPath, openLayout, type PackedImages } from "../../oci/layout.ts";
import { readDocument } from "../../oci/layout_files.ts";
import { parseManifest } from "../../oci/manifest.ts";
import { archiveError } from "../../oci/tar.ts";
import { TarParser } from "../../oci/tar_parser.ts";
import type { Digest } from "../../oci/types.ts";

export interface ExportedImage {
  /** The engine's id of the image. */
  id: Digest;
  /** The document that the image's names refer to. */
  root: Digest;
  manifests: Record<Digest, { mediaType: string; text: string }>;
  /** Places in the archive, in bytes. */
  blobs: Record<Digest, { offset: number; size: number }>;
  /** Bytes of the archive. */
  size: number;
}

/** Bytes that are written at once. */
const WRITE = 1 << 20;
/** Most levels of indexes within indexes. */
const MAX_DEPTH = 4;

/** Writes the archive to a new file; gives the digests of its files by their paths, and its length. */
async function receive(archive: ReadableStream<Uint8Array>, path: string, signal?: AbortSignal) {
  const digests = new Map<string, Digest>();
  let name = "";
  let digester: Digester | undefined;
  const parser = new TarParser({
    entry(header) {
      name = cleanPath(header.path);
      digester = header.type === "file" ? createDigester() : undefined;
    },
    data: (chunk) => digester?.update(chunk),
    hole() {
      throw archiveError(`${name} is a sparse file`);
    },
    end() {
      if (digester) digests.set(name, digester.digest());
    },
  });
  using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  const buffer = new Uint8Array(WRITE);
  let [filled, size] = [0, 0];
  const flush = async () => {
    for (let at = 0; at < filled;) at += await file.write(buffer.subarray(at, filled));
    filled = 0;
  };
  for await (let chunk of archive) {
    signal?.throwIfAborted();
    parser.push(chunk);
    size += chunk.length;
    while (chunk.length > 0) {
      const part = chunk.subarray(0, WRITE - filled);
      buffer.set(part, filled);
      filled += part.length;
      chunk = chunk.subarray(part.length);
      if (filled === WRITE) await flush();
    }
  }
  await flush();
  parser.finish();
  return { digests, size };
}

/** Keeps a byte order mark: the text has to give the same bytes again. */
const textOf = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

/** docker's classic builder writes null for no layers. What is no JSON is told by the parser of manifests. */
function withLayers(bytes: Uint8Array): Uint8Array {
  let document;
  try {
    document = JSON.parse(textOf(bytes));
  } catch {
    return bytes;
  }
  return document?.layers === null
    ? new TextEncoder().encode(JSON.stringify({ ...document, layers: [] }))
    : bytes;
}

class Description {
  readonly manifests: ExportedImage["manifests"] = {};
  readonly blobs: ExportedImage["blobs"] = {};
  readonly #files: ArchiveFiles;
  readonly #digests: ReadonlyMap<string, Digest>;

  constructor(files: ArchiveFiles, digests: ReadonlyMap<string, Digest>) {
    this.#files = files;
    this.#digests = digests;
  }

  /** False where the archive does not have the blob. Throws where its bytes are others. */
  #blob(digest: Digest, path = blobPath(digest)): boolean {
    const place = this.#files.place(path);
    if (!place) return false;
    const actual = this.#digests.get(place.path);
    if (digest.startsWith("sha256:") && actual !== digest) {
      throw archiveError(`${place.path} has the digest ${actual}, not ${digest}`);
    }
    this.blobs[digest] = { offset: place.offset, size: place.size };
    return true;
  }

  /**
   * Takes a document of an OCI layout, with what it refers to and the archive has: an index may name platforms
   * that the engine does not have. False where no image of it is whole.
   */
  async fromLayout(layout: PackedImages, digest: Digest, depth = 0): Promise<boolean> {
    const found = await layout.resolve("", digest);
    if (!found) return false;
    const { descriptor: { mediaType }, bytes } = found;
    const parsed = parseManifest(withLayers(bytes), mediaType);
    let whole: boolean;
    if (parsed.kind === "index") {
      whole = false;
      for (const child of depth < MAX_DEPTH ? parsed.manifests : []) {
        if (await this.fromLayout(layout, child.digest, depth + 1)) whole = true;
      }
    } else whole = parsed.blobs.filter((blob) => !this.#blob(blob.digest)).length === 0;
    this.manifests[digest] = { mediaType, text: textOf(bytes) };
    return whole;
  }

  /** Makes the manifest of the only image of an archive of docker's; gives its digest. */
  async fromDocker(id: Digest, signal?: AbortSignal): Promise<Digest> {
    const packed = await openDockerArchive(this.#files, { made: true, signal });
    const [image, ...others] = packed.images;
    if (!image || others.some(({ digest }) => digest !== image.digest)) {
      throw archiveError("it does not have one image");
    }
    const { descriptor, bytes } = (await packed.resolve("", image.digest))!;
    const parsed = parseManifest(bytes, descriptor.mediaType);
    const config = parsed.kind === "image" ? parsed.document.config.digest : undefined;
    if (config !== id) throw archiveError(`it has the image ${config}`);
    for (const { digest } of parsed.blobs) {
      if (!this.#blob(digest, packed.pathOf(digest))) throw archiveError(`${digest} is missing`);
    }
    const { mediaType, digest } = descriptor;
    this.manifests[digest] = { mediaType, text: textOf(bytes) };
    return digest;
  }
}

/**
 * Receives the export of the image `id` into a new file at `path`, which the caller removes where this throws.
 * An engine that keeps manifests exports the one whose digest is the id: it is served as it is. For others a
 * manifest is made, the same at every export. Every blob has been checked against its digest. Throws
 * `upstream_failed` where the archive breaks off or is another image's.
 */
export async function receiveExport(
  archive: ReadableStream<Uint8Array>,
  { id, path, signal }: { id: Digest; path: string; signal?: AbortSignal },
): Promise<ExportedImage> {
  try {
    const { digests, size } = await receive(archive, path, signal);
    await using files = await openArchive(path, { signal });
    const description = new Description(files, digests);
    const isLayout = files.place("oci-layout") && files.place("index.json");
    const kept = isLayout && files.place(blobPath(id)) && !await isConfig(files, id, signal);
    let root = id;
    if (!kept) root = await description.fromDocker(id, signal);
    else if (!await description.fromLayout(await openLayout(files, { signal }), id)) {
      throw archiveError("a layer is missing");
    }
    const { manifests, blobs } = description;
    return { id, root, manifests, blobs, size };
  } catch (error) {
    signal?.throwIfAborted();
    const broken = ["archive_invalid", "digest_invalid", "manifest_invalid"];
    if (!(error instanceof SvcError) || !broken.includes(error.code)) throw error;
    throw new SvcError("upstream_failed", `Cannot export image ${id}: ${error.message}`, {
      cause: error,
      help: "try again; where it stays so, the engine's own export of the image is damaged",
    });
  }
}

/** True where an id is a config's digest: manifest.json then names it. */
async function isConfig(files: ArchiveFiles, id: Digest, signal?: AbortSignal): Promise<boolean> {
  const images = await readDocument(files, "manifest.json", signal);
  return Array.isArray(images) && images.some((image) => blobPath(id) === image?.Config);
}
