/** Opens the places of a transfer: sources and sinks. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { exists } from "../base/fs.ts";
import { suggestion } from "../base/nearest.ts";
import { openArchive } from "../oci/archive.ts";
import { openDockerArchive } from "../oci/archive_docker.ts";
import type { ResolvedManifest } from "../oci/image.ts";
import { openLayout, type PackedImages } from "../oci/layout.ts";
import { directoryFiles, type LayoutFiles } from "../oci/layout_files.ts";
import { formatReference, isTag, parseReference } from "../oci/reference.ts";
import { ArchiveSink } from "./archive_sink.ts";
import { LayoutSink } from "./layout_sink.ts";
import {
  type FilePlace,
  formatPlace,
  type PackedPlace,
  type Place,
  type RegistryPlace,
} from "./place.ts";
import type { Origin } from "./plan.ts";
import type { Registries } from "./registries.ts";
import { RegistrySink, type TransferSink } from "./sink.ts";

/** Names that an error lists. */
const SHOWN = 20;

/** An open source: the image's place, its top manifest, and its names. */
export interface OpenSource extends AsyncDisposable {
  origin: Origin;
  top: ResolvedManifest;
  /** The image's tag, if it has one; the default tag at the destination. */
  tag?: string;
  /** Complete name without digest, if the image has one that a registry or docker accepts. */
  name?: string;
}

function list(names: readonly string[]): string {
  const rest = names.length - SHOWN;
  return names.slice(0, SHOWN).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

async function openRegistrySource(
  place: RegistryPlace,
  registries: Registries,
  signal: AbortSignal,
): Promise<OpenSource> {
  const host = place.host ?? registries.serverHost;
  const registry = registries.get(place.host);
  const { repository, digest } = place;
  const tag = place.tag ?? (digest === undefined ? "latest" : undefined);
  const label = formatPlace({ ...place, tag }, registries.serverHost);
  const top = await registry.resolve(repository, digest ?? tag!, { signal });
  if (!top) throw await missing(label, tag, () => registry.tags(repository, { signal }));
  const name = formatReference({
    registry: place.host,
    repository,
    ...(tag !== undefined && { tag }),
  });
  return {
    origin: { source: registry, repository, label, host },
    top,
    ...(tag !== undefined && { tag, name }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** The error for an image that is not there; it lists the images that are. */
async function missing(
  label: string,
  tag: string | undefined,
  tags: () => AsyncIterable<string>,
): Promise<SvcError> {
  const names: string[] = [];
  try {
    for await (const name of tags()) names.push(name);
  } catch {
    // Without the listing the error is still right.
  }
  const what = tag === undefined ? "there is no such digest" : `there is no tag ${tag}`;
  return new SvcError(
    "manifest_unknown",
    `Cannot read ${label}: ${
      names.length === 0 ? "there is no such image" : `${what}; it has ${list(names)}`
    }`,
    { help: `check the name${tag ? suggestion(tag, names) : ""}` },
  );
}

async function openFiles(place: PackedPlace | FilePlace, signal: AbortSignal) {
  if (place.kind !== "oci") return await openArchive(place.path, { signal });
  if (await exists(place.path)) return directoryFiles(place.path);
  throw new SvcError("not_found", `Cannot read ${place.path}: there is no such folder`, {
    help: "check the path",
  });
}

/** Detects the kind of a file by its content, where the person did not name it. */
async function readImages(
  files: LayoutFiles,
  kind: Place["kind"],
  signal: AbortSignal,
): Promise<PackedImages> {
  const docker = kind === "docker-archive" ||
    kind === "file" && await files.size("manifest.json") !== undefined;
  if (docker) return await openDockerArchive(files, { signal });
  if (kind === "file" && await files.size("index.json") === undefined) {
    throw new SvcError(
      "archive_invalid",
      `Cannot read ${files.label}: it is neither a docker archive nor an OCI archive`,
      { help: "name a file that docker save, skopeo or svc pull wrote" },
    );
  }
  return await openLayout(files, { signal });
}

function chooseImage(images: PackedImages, place: PackedPlace | FilePlace) {
  const { reference, digest } = place.kind === "file"
    ? { reference: undefined, digest: undefined }
    : place;
  if (digest !== undefined) return { wanted: digest, name: reference };
  if (reference !== undefined) return { wanted: reference, name: reference };
  const digests = new Set(images.images.map((image) => image.digest));
  const [only] = images.images;
  if (digests.size === 1) return { wanted: only.digest, name: only.name };
  const names = images.images.flatMap((image) => image.name ?? []);
  const have = images.images.map((image) => image.name ?? image.digest);
  throw new SvcError(
    "manifest_unknown",
    `Cannot read ${images.label}: it holds ${
      digests.size === 0 ? "no image" : `${digests.size} images: ${list(have)}`
    }`,
    { help: names.length > 0 ? "write the name after the path and a colon" : "write PATH@DIGEST" },
  );
}

/** "v1" of "host/app:v1" or of "v1"; the name only where the text is a name. */
function namesOf(name: string | undefined, docker: boolean): { tag?: string; name?: string } {
  if (name === undefined) return {};
  if (!docker && isTag(name)) return { tag: name };
  try {
    const reference = parseReference(name);
    const tag = reference.tag ?? "latest";
    return { tag, name: formatReference({ ...reference, tag, digest: undefined }) };
  } catch {
    return {}; // a name that is neither: the layout's own affair
  }
}

async function openPackedSource(
  place: PackedPlace | FilePlace,
  signal: AbortSignal,
): Promise<OpenSource> {
  const files = await openFiles(place, signal);
  try {
    const images = await readImages(files, place.kind, signal);
    const { wanted, name } = chooseImage(images, place);
    const top = await images.resolve("", wanted, { signal });
    if (!top) {
      const have = images.images.map((image) => image.name ?? image.digest);
      throw new SvcError(
        "manifest_unknown",
        `Cannot read ${formatPlace(place)}: there is no image ${wanted} in it; it has ${
          list(have) || "none"
        }`,
        { help: "check the name after the path" },
      );
    }
    const docker = place.kind === "docker-archive" ||
      place.kind === "file" && await files.size("manifest.json") !== undefined;
    return {
      origin: { source: images, repository: "", label: formatPlace(place) },
      top,
      ...namesOf(name, docker),
      [Symbol.asyncDispose]: () => files[Symbol.asyncDispose](),
    };
  } catch (error) {
    await files[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Opens a source. Throws `manifest_unknown` with a list of existing images, `not_found`, `archive_invalid`, and
 * what registries answer.
 */
export function openSource(
  place: Place,
  registries: Registries,
  signal: AbortSignal,
): Promise<OpenSource> {
  return place.kind === "registry"
    ? openRegistrySource(place, registries, signal)
    : openPackedSource(place, signal);
}

/** The name without "docker.io/library/", which only docker's own names have. */
function shortName(registry: string | undefined, repository: string): string {
  const official = registry === "docker.io" && /^library\/[^/]+$/.test(repository);
  return official ? repository.slice("library/".length) : repository;
}

/** The name in the server's registry for `svc pull SOURCE` without a destination. */
export function defaultDestination(place: Place, source: OpenSource): RegistryPlace {
  const usage = (why: string) =>
    new SvcError("usage", `Cannot pull ${source.origin.label}: ${why}`, {
      help: "name a destination, such as oci:DIR or -o FILE; see `svc pull --help`",
    });
  if (place.kind === "registry") {
    if (place.host === undefined) throw usage("it is in the server's registry already");
    const { host, repository, digest } = place;
    return {
      kind: "registry",
      repository: shortName(host, repository),
      ...(source.tag !== undefined ? { tag: source.tag } : digest !== undefined && { digest }),
    };
  }
  if (source.name === undefined) throw usage("it has no name to go by in the server's registry");
  const { registry, repository, tag } = parseReference(source.name);
  return {
    kind: "registry",
    repository: shortName(registry, repository),
    ...(tag !== undefined && { tag }),
  };
}

/** Opens a destination. `platform`: the platform that the person chose. */
export async function openSink(
  place: Place,
  source: Pick<OpenSource, "tag" | "name">,
  registries: Registries,
): Promise<TransferSink> {
  switch (place.kind) {
    case "registry": {
      const tag = place.tag ?? (place.digest === undefined ? "latest" : undefined);
      const host = place.host ?? registries.serverHost;
      return new RegistrySink(registries.get(place.host), { ...place, tag }, host);
    }
    case "oci":
      refuseDigest(place);
      return new LayoutSink(place.path, place.reference ?? source.tag);
    case "oci-archive":
      refuseDigest(place);
      return new ArchiveSink({ ...place, kind: place.kind, name: place.reference ?? source.tag });
    case "docker-archive": {
      refuseDigest(place);
      const name = place.reference === undefined
        ? source.name
        : namesOf(place.reference, true).name ?? refuseName(place);
      return new ArchiveSink({ path: place.path, kind: place.kind, name });
    }
    case "file":
      if (/\.tar$/.test(place.path)) {
        return new ArchiveSink({ path: place.path, kind: "docker-archive", name: source.name });
      }
      if (await exists(join(place.path, "index.json"))) {
        return new LayoutSink(place.path, source.tag);
      }
      throw new SvcError(
        "usage",
        `Cannot write ${place.path}: it does not say what it should become`,
        { help: "put docker-archive:, oci-archive: or oci: in front of it" },
      );
  }
}

function refuseDigest(place: PackedPlace): void {
  if (place.digest === undefined) return;
  throw new SvcError("usage", `Cannot write ${formatPlace(place)}: a digest is not a name`, {
    help: "write the name after the path and a colon",
  });
}

function refuseName(place: PackedPlace): never {
  throw new SvcError(
    "reference_invalid",
    `Cannot write ${formatPlace(place)}: ${JSON.stringify(place.reference)} is not an image name`,
  );
}
