/** Writes a build's cache in a form that other machines can import. */
import type { CacheToSpec } from "../../api/build_cache_spec.ts";
import { lstat } from "../../sys/files.ts";
import { MEDIA } from "../../oci/types.ts";
import type { BuildPlan } from "../plan/graph.ts";
import { chain, type Vertex } from "../plan/graph.ts";
import type { MountName } from "../solve/cache_mounts.ts";
import type { Engine, Outcome } from "../solve/engine_context.ts";
import { blobOf, type ContentBlob, documentOf, encodeDocument } from "../export/content.ts";
import type { ImageContent } from "../export/content.ts";
import type { Layers } from "../export/layers.ts";
import { DEFAULT_LEVELS, type Packing, packingKey } from "../export/packer_wire.ts";
import {
  CACHE_ARTIFACT,
  CACHE_CONFIG,
  type CachedMount,
  type CacheDocument,
  type CachedStep,
  MOUNT_FOLDERS,
  sortedDocument,
} from "./document.ts";

/** What one platform's solver found. */
export interface CacheKnowledge {
  plan: BuildPlan;
  keys: ReadonlyMap<Vertex, string>;
  outcomes: ReadonlyMap<Vertex, Outcome>;
  links: ReadonlyMap<string, string>;
}

export type CacheForm = Pick<CacheToSpec, "mode" | "mounts"> & { packing: Packing };

export const cachePacking = (
  spec: Pick<CacheToSpec, "compression" | "compressionLevel">,
): Packing => ({
  compression: spec.compression,
  level: spec.compressionLevel ?? DEFAULT_LEVELS[spec.compression],
});

/** The results that a cache in this mode holds, by key. */
async function results(
  engine: Engine,
  known: CacheKnowledge,
  mode: CacheForm["mode"],
): Promise<Map<string, Outcome>> {
  const found = new Map<string, Outcome>();
  const vertices = mode === "max" ? [...known.keys.keys()] : chain(known.plan.root);
  for (const vertex of vertices) {
    const key = known.keys.get(vertex);
    if (vertex.kind === "image" || key === undefined) continue;
    const outcome = known.outcomes.get(vertex) ?? await earlier(engine, key);
    if (outcome?.snapshot !== undefined) found.set(key, outcome);
  }
  return found;
}

/** The earlier result of a step that this build did not need; from the cache. */
async function earlier(engine: Engine, key: string): Promise<Outcome | undefined> {
  const record = await engine.records.find(key);
  if (!record) return undefined;
  const { snapshot, created } = record;
  return { key, snapshot, created, record, ran: false };
}

async function steps(
  engine: Engine,
  known: readonly CacheKnowledge[],
  layers: Layers,
  { mode, packing }: CacheForm,
): Promise<{ records: CachedStep[]; blobs: ContentBlob[]; links: CacheDocument["links"] }> {
  const records: CachedStep[] = [];
  const blobs: ContentBlob[] = [];
  const links = new Map<string, string>();
  const seen = new Set<string>();
  for (const one of known) {
    for (const [key, outcome] of await results(engine, one, mode)) {
      if (seen.has(key)) continue;
      seen.add(key);
      // Packed with the steps' own times, whatever times the image's layers have: later steps build on it.
      const layer = await layers.own(outcome, packing);
      const { digest } = layer.descriptor;
      const { diffID } = layer;
      const { created } = outcome;
      records.push({ key, created, diffID, digest, packing: packingKey(packing) });
      blobs.push(layer);
    }
    for (const [from, to] of one.links) links.set(from, to);
  }
  return { records, blobs, links: [...links].map(([from, to]) => ({ from, to })) };
}

/** The cache mounts that a build's steps name, by id. */
export function mountNames(plans: readonly BuildPlan[]): Map<string, MountName> {
  return new Map(
    plans.flatMap(({ vertices }) =>
      vertices.flatMap((vertex) =>
        vertex.kind === "run"
          ? vertex.mounts.flatMap((mount) =>
            mount.type === "cache" ? [[mount.id, mount] as const] : []
          )
          : []
      )
    ),
  );
}

/** The cache as an image, for a registry or a folder. */
export async function cacheImage(
  engine: Engine,
  known: readonly CacheKnowledge[],
  layers: Layers,
  form: CacheForm,
): Promise<ImageContent> {
  const { records, blobs, links } = await steps(engine, known, layers, form);
  const mounts: CachedMount[] = [];
  if (form.mounts) {
    for (const [id, name] of mountNames(known.map(({ plan }) => plan))) {
      for (const folder of MOUNT_FOLDERS) {
        using borrowed = await engine.cacheMounts.borrow(name, folder);
        if (!borrowed) continue;
        const { mode, uid, gid } = lstat(borrowed.path);
        const archive = await layers.folder(borrowed.path, form.packing);
        const { digest } = archive.descriptor;
        mounts.push({ id, folder, digest, mode: mode & 0o7777, uid, gid });
        blobs.push(archive);
      }
    }
  }
  const document = sortedDocument({
    version: 1,
    records,
    links,
    ...(mounts.length > 0 && { mounts }),
  });
  const config = blobOf(CACHE_CONFIG, encodeDocument(document));
  const unique = [...new Map(blobs.map((blob) => [blob.descriptor.digest, blob])).values()];
  const root = documentOf(MEDIA.manifest, {
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    artifactType: CACHE_ARTIFACT,
    config: config.descriptor,
    layers: unique.map(({ descriptor }) => descriptor),
  });
  return { root, children: [], blobs: [...unique, config], platforms: [] };
}

/** The inline document for one platform's image. Its layers are the image's, in whatever packing. */
export async function inlineDocument(
  engine: Engine,
  known: CacheKnowledge,
  layers: Layers,
  packing: Packing,
): Promise<CacheDocument> {
  const form: CacheForm = { mode: "min", mounts: false, packing };
  const { records, links } = await steps(engine, [known], layers, form);
  return sortedDocument({
    version: 1,
    records: records.map(({ digest: _digest, ...step }) => step),
    links,
  });
}
