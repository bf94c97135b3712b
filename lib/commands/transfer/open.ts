/** From places to what is read from and written to. */
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { exists } from "../../base/fs.ts";
import { suggestion } from "../../base/nearest.ts";
import { openArchive } from "../../oci/archive.ts";
import { openDockerArchive } from "../../oci/archive_docker.ts";
import type { ResolvedManifest } from "../../oci/image.ts";
import { openLayout, type PackedImages } from "../../oci/layout.ts";
import { directoryFiles, type LayoutFiles } from "../../oci/layout_files.ts";
import { formatReference, isTag, parseReference } from "../../oci/reference.ts";
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

/** An open source: where the image is, its top manifest, and what it is called there. */
export interface OpenSource extends AsyncDisposable {
  origin: Origin;
  top: ResolvedManifest;
  /** Tag, where it has one: what the other end calls it unless told otherwise. */
  tag?: string;
  /** Complete name without digest, where it has one that a registry or docker would take. */
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

/** Says what there is instead of what was asked for. */
async function missing(
  label: string,
  tag: string | undefined,
  tags: () => AsyncIterable<string>,
): Promise<SvcError> {
  const names: string[] = [];
  try {
    for await (const name of tags()) names.push(name);
  } catch {
    // The listing is a courtesy: what is missing is known without it.
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

/** What the content says a file is, where the person did not. */
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

/** "v1" of "host/app:v1" or of "v1"; the name only where it is one. */
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
 * Opens what an image is read from. Throws `manifest_unknown` that lists what there is, `not_found`,
 * `archive_invalid`, and what registries answer.
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

/** What docker calls "docker.io/library/busybox": that part is docker's own and left out. */
function shortName(registry: string | undefined, repository: string): string {
  const official = registry === "docker.io" && /^library\/[^/]+$/.test(repository);
  return official ? repository.slice("library/".length) : repository;
}

/** The registry's own copy of a name, for `svc pull SOURCE` without a destination. */
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

/** Opens what an image is written to. `platform`: the person chose one. */
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
  throw new SvcError("usage", `Cannot write ${formatPlace(place)}: a digest is no name`, {
    help: "write the name after the path and a colon",
  });
}

function refuseName(place: PackedPlace): never {
  throw new SvcError(
    "reference_invalid",
    `Cannot write ${formatPlace(place)}: ${JSON.stringify(place.reference)} is no image name`,
  );
}
