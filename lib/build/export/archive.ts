/** Images as archives: an OCI layout, with docker's manifest.json too where `docker load` is to read it. */
import { SvcError } from "../../base/errors.ts";
import { familiarName } from "../../oci/archive_docker.ts";
import { blobPath, IMAGE_NAME, LAYOUT_VERSION, REF_NAME } from "../../oci/layout.ts";
import { parseReference } from "../../oci/reference.ts";
import { padding } from "../../oci/tar.ts";
import { tarEnd, tarHeader } from "../../oci/tar_write.ts";
import { type Descriptor, MEDIA } from "../../oci/types.ts";
import { encodeDocument, type ImageContent } from "./content.ts";

type Piece = Uint8Array | (() => Promise<ReadableStream<Uint8Array>>);

/** The index entries for the image's names, completed as the tools that read archives do. */
function entries({ descriptor }: ImageContent["root"], names: readonly string[]): Descriptor[] {
  if (names.length === 0) return [descriptor];
  return names.map((name) => ({
    ...descriptor,
    annotations: {
      [IMAGE_NAME]: familiarName(name),
      [REF_NAME]: parseReference(name).tag ?? "latest",
    },
  }));
}

function dockerManifest(image: ImageContent, names: readonly string[]): unknown {
  const [only, ...others] = image.platforms;
  if (others.length > 0 || image.children.length > 0) {
    throw new SvcError(
      "unsupported",
      "Cannot write a docker archive: the image has several platforms",
      { help: "write type=oci, or build for one platform" },
    );
  }
  const { layers } = JSON.parse(new TextDecoder().decode(image.root.bytes)) as {
    layers: Descriptor[];
  };
  return [{
    Config: blobPath(only.config.digest),
    RepoTags: names.length > 0 ? names.map((name) => familiarName(name)) : null,
    Layers: layers.map(({ digest }) => blobPath(digest)),
  }];
}

/**
 * Writes the archive; the same image gives the same bytes. Throws `unsupported` where docker's format cannot
 * hold the image.
 */
export function imageArchive(
  image: ImageContent,
  kind: "oci" | "docker",
  names: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  const { root, children, blobs } = image;
  const files: [path: string, size: number, piece: Piece][] = [];
  const add = (path: string, bytes: Uint8Array) => files.push([path, bytes.length, bytes]);
  add("oci-layout", new TextEncoder().encode(LAYOUT_VERSION));
  add(
    "index.json",
    encodeDocument({
      schemaVersion: 2,
      mediaType: MEDIA.index,
      manifests: entries(root, names),
    }),
  );
  if (kind === "docker") add("manifest.json", encodeDocument(dockerManifest(image, names)));
  for (const { descriptor, bytes } of [...children, root]) add(blobPath(descriptor.digest), bytes);
  for (const { descriptor, open } of blobs) {
    files.push([blobPath(descriptor.digest), descriptor.size, () => open(signal)]);
  }
  return write(files, signal);
}

async function* write(
  files: readonly [path: string, size: number, piece: Piece][],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  for (const [path, size, piece] of files) {
    signal.throwIfAborted();
    yield tarHeader({ path, type: "file", size });
    let seen = 0;
    const chunks = piece instanceof Uint8Array ? [piece] : await piece();
    for await (const chunk of chunks) {
      seen += chunk.length;
      yield chunk;
    }
    if (seen !== size) {
      throw new SvcError("size_invalid", `Cannot write ${path}: it has ${seen} bytes, not ${size}`);
    }
    yield new Uint8Array(padding(size));
  }
  yield tarEnd();
}
