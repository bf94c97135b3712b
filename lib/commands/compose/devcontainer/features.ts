/** Dev container features (containers.dev, "Features"): fetched from registries or folders, and put in order. */
import { createHash } from "node:crypto";
import { SvcError } from "../../../base/errors.ts";
import { join, resolve } from "../../../base/path.ts";
import type { Devcontainer, Fields } from "../../../compose/devcontainer/read.ts";
import { Files } from "../../../compose/files.ts";
import { parseJsonc } from "../../../compose/devcontainer/jsonc.ts";
import { decompress } from "../../../oci/compression.ts";
import { parseManifest } from "../../../oci/manifest.ts";
import { parseReference } from "../../../oci/reference.ts";
import type { Registries } from "../../../transfer/registries.ts";
import { extractArchive } from "../../build/extract.ts";

/** Bytes of a feature's archive, of all features that are fetched, and number of features, at most. */
const LARGEST = 256 << 20;
const ALL = 1 << 30;
const MOST = 100;

/** What devcontainer-feature.json says of the installation. */
export interface FeatureFields {
  options?: Record<string, { default?: string | boolean; enum?: string[] }>;
  dependsOn?: NonNullable<Fields["features"]>;
  installsAfter?: string[];
  containerEnv?: Record<string, string>;
}

export interface Feature {
  /** As it was named. */
  reference: string;
  /** Where its files are. */
  folder: string;
  /** Another one where its files differ. */
  digest: string;
  /** Variables of its install.sh. */
  variables: Record<string, string>;
  fields: FeatureFields;
}

interface Fetching {
  dev: Devcontainer;
  registries: Registries;
  /** Archives are unpacked below it. */
  scratch: string;
  /** Bytes that may still be unpacked there; default: 1 GiB. */
  room?: number;
  signal: AbortSignal;
}

const cannot = (reference: string, why: string, help?: string) =>
  new SvcError("unsupported", `Cannot use the feature ${reference}: ${why}`, {
    ...(help && { help }),
  });

/** Without its version: what `installsAfter` and the order of installation name. */
const bare = (reference: string) => reference.replace(/@sha256:.*$|:[^:/]*$/, "").toLowerCase();

async function fetchArtifact(
  reference: string,
  index: number,
  fetching: Fetching,
): Promise<Pick<Feature, "folder" | "digest">> {
  const { registries, scratch, room = ALL, signal } = fetching;
  const most = Math.min(LARGEST, room);
  const requireRoom = (size: number) => {
    if (size <= most) return;
    const what = most < LARGEST ? "all features together have" : "it has";
    throw cannot(reference, `${what} more than ${(most < LARGEST ? ALL : LARGEST) >> 20} MiB`);
  };
  const { registry: host, repository, tag, digest } = parseReference(reference);
  if (!host) throw cannot(reference, "it names no registry", "write REGISTRY/OWNER/NAME:VERSION");
  const registry = registries.get(host);
  const found = await registry.resolve(repository, digest ?? tag ?? "latest", { signal });
  if (!found) throw new SvcError("not_found", `Cannot find the feature ${reference}`);
  const manifest = parseManifest(found.bytes, found.descriptor.mediaType);
  const [layer] = manifest.kind === "image" ? manifest.document.layers : [];
  if (!layer) throw cannot(reference, "it is no feature: it has no layer");
  requireRoom(layer.size);
  const blob = await registry.get(repository, layer.digest, { signal });
  if (!blob) throw new SvcError("not_found", `Cannot find the files of the feature ${reference}`);
  const folder = join(scratch, String(index));
  await Deno.mkdir(folder);
  // What is packed small may be large.
  let size = 0;
  const counted = decompress(blob.stream()).pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        requireRoom(size += chunk.length);
        controller.enqueue(chunk);
      },
    }),
  );
  const { bytes } = await extractArchive(counted, folder, { signal });
  // Files with holes are larger than what was packed.
  requireRoom(bytes);
  fetching.room = room - Math.max(size, bytes);
  return { folder, digest: layer.digest };
}

/** A hash of all files of a folder. */
async function hashOf(folder: string): Promise<string> {
  const hash = createHash("sha256");
  const visit = async (path: string, below: string) => {
    const entries = (await Array.fromAsync(Deno.readDir(path))).sort((a, b) =>
      a.name < b.name ? -1 : 1
    );
    for (const { name, isDirectory, isFile } of entries) {
      const inside = `${below}/${name}`;
      if (isDirectory) await visit(join(path, name), inside);
      else if (isFile) {
        hash.update(inside).update("\0").update(await Deno.readFile(join(path, name)));
      }
    }
  };
  await visit(folder, "");
  return hash.digest("hex");
}

async function localFolder(
  reference: string,
  { dev }: Fetching,
): Promise<Pick<Feature, "folder" | "digest">> {
  const base = resolve(dev.file, "..");
  const folder = resolve(base, reference);
  if (folder !== base && !folder.startsWith(`${base}/`)) {
    throw cannot(reference, `it is not below ${base}`, "move it there");
  }
  const [place, workspace] = await Promise.all(
    [folder, dev.workspace].map((path) =>
      Deno.realPath(path).catch(({ message }) => {
        throw cannot(reference, message);
      })
    ),
  );
  // A link could lend any folder of this machine to the build.
  if (!place.startsWith(`${workspace}/`)) throw cannot(reference, `it leads out of ${workspace}`);
  return { folder: place, digest: await hashOf(place) };
}

/** The name of an option as a variable (specification, "Option Resolution"). */
const variableOf = (name: string) =>
  name.replace(/[^\w]/g, "_").replace(/^[\d_]+/, "_").toUpperCase();

type Given = NonNullable<Fields["features"]>[string];

function variablesOf(reference: string, given: Given, { options = {} }: FeatureFields) {
  const asked: Record<string, string | boolean> = typeof given === "object"
    ? given
    : typeof given === "string"
    ? { version: given }
    : {};
  const variables: Record<string, string> = {};
  for (const [name, { default: standard }] of Object.entries(options)) {
    if (standard !== undefined) variables[variableOf(name)] = String(standard);
  }
  for (const [name, value] of Object.entries(asked)) {
    const allowed = options[name]?.enum;
    if (allowed && !allowed.includes(String(value))) {
      throw cannot(reference, `its option ${name} is one of ${allowed.join(", ")}`);
    }
    variables[variableOf(name)] = String(value);
  }
  return variables;
}

async function fetchFeature(
  reference: string,
  given: Given,
  index: number,
  fetching: Fetching,
): Promise<Feature> {
  if (/^https?:/.test(reference)) {
    throw cannot(
      reference,
      "svc fetches features from registries alone",
      "name it by its registry",
    );
  }
  const files = reference.startsWith(".")
    ? await localFolder(reference, fetching)
    : await fetchArtifact(reference, index, fetching);
  const path = join(files.folder, "devcontainer-feature.json");
  const text = await new Files().text(path).catch(({ message }) => {
    throw cannot(reference, `its devcontainer-feature.json cannot be read: ${message}`);
  });
  const fields = parseJsonc(text, `devcontainer-feature.json of ${reference}`) as FeatureFields;
  return { reference, ...files, fields, variables: variablesOf(reference, given, fields) };
}

/** In the order in which they are installed. Throws `spec_invalid` for a circle. */
export function ordered(features: readonly Feature[], first: readonly string[] = []): Feature[] {
  const left = [...features];
  const rank = ({ reference }: Feature) => {
    const at = first.findIndex((name) => bare(name) === bare(reference));
    return at < 0 ? first.length : at;
  };
  left.sort((a, b) => rank(a) - rank(b));
  const sorted: Feature[] = [];
  const isLeft = (name: string) => left.some(({ reference }) => bare(reference) === bare(name));
  while (left.length > 0) {
    const ready = (soft: boolean) =>
      left.findIndex(({ fields }) =>
        !Object.keys(fields.dependsOn ?? {}).some(isLeft) &&
        !(soft && fields.installsAfter?.some(isLeft))
      );
    // An order that is only wished for gives way.
    const at = [ready(true), ready(false)].find((index) => index >= 0);
    if (at === undefined) {
      const circle = left.map(({ reference }) => reference).join(", ");
      throw new SvcError("spec_invalid", `Cannot install features: ${circle} need one another`);
    }
    sorted.push(...left.splice(at, 1));
  }
  return sorted;
}

/** The features and those that they depend on, in the order of their installation. */
export async function resolveFeatures(of: Fetching): Promise<Feature[]> {
  const fetching = { ...of };
  const { fields: { features = {}, overrideFeatureInstallOrder } } = fetching.dev;
  const found = new Map<string, Feature>();
  const left = Object.entries(features);
  for (let next = left.shift(); next; next = left.shift()) {
    const [reference, given] = next;
    if (given === false || found.has(bare(reference))) continue;
    if (found.size >= MOST) throw cannot(reference, `there are more than ${MOST} features`);
    const feature = await fetchFeature(reference, given, found.size, fetching);
    found.set(bare(reference), feature);
    left.push(...Object.entries(feature.fields.dependsOn ?? {}));
  }
  return ordered([...found.values()], overrideFeatureInstallOrder);
}
