/**
 * Makes an image from solved plans: packs layers, makes configs and manifests, and an index over several
 * platforms.
 */
import { SvcError } from "../../base/errors.ts";
import { type Descriptor, MEDIA, type Platform } from "../../oci/types.ts";
import { type CacheDocument, INLINE_MEMBER } from "../cache/document.ts";
import type { CacheKnowledge } from "../cache/export.ts";
import { chain } from "../plan/graph.ts";
import { type Annotation, annotationsOf } from "./annotations.ts";
import { blobOf, type ContentBlob, type Document, documentOf, encodeDocument } from "./content.ts";
import type { ImageContent, PlatformContent } from "./content.ts";
import { imageConfig, imageManifest, platformOf } from "./image.ts";
import { inOrder } from "./lanes.ts";
import { type Layer, Layers, layerType } from "./layers.ts";
import type { Packing } from "./packer_wire.ts";

/** Layers packed at the same time. */
const AT_ONCE = 2;

/** One platform's part of a build. */
export type SolvedPlan = CacheKnowledge;

/** What goes into images besides their layers. */
export interface Additions {
  /** Called once the images' manifests are known. */
  extrasOf?: (images: readonly PlatformContent[]) => Promise<Extra[]>;
  /** Gives the cache that an image carries in its config (inline). */
  inlineOf?: (solved: SolvedPlan) => Promise<CacheDocument>;
}

/** The options in which two images of one build can differ. */
export interface ImageForm {
  packing: Packing;
  forceCompression: boolean;
  dockerTypes: boolean;
  annotations: readonly Annotation[];
}

/** An entry of an index besides the images: attestations. */
export interface Extra {
  document: Document;
  blobs: ContentBlob[];
  /** Fields added to the document's descriptor in the index. */
  entry: Pick<Descriptor, "annotations" | "platform">;
}

interface Made {
  document: Document;
  blobs: ContentBlob[];
  content: PlatformContent;
}

/** The layers of a plan, the base image's layers first. */
async function layersOf(
  { plan, outcomes }: SolvedPlan,
  layers: Layers,
  form: Pick<ImageForm, "packing" | "forceCompression">,
): Promise<Layer[]> {
  const { base } = plan;
  const own = chain(plan.root).filter((vertex) => vertex.kind !== "image");
  const count = base?.manifest.layers.length ?? 0;
  const { packing, forceCompression } = form;
  const work = [
    ...Array.from(
      { length: count },
      (_, index) => () => layers.base(base!, index, packing, forceCompression),
    ),
    ...own.map((vertex) => () => layers.own(outcomes.get(vertex)!, packing, plan.epoch)),
  ];
  return await inOrder(work, AT_ONCE, (make) => make());
}

async function makeOne(
  solved: SolvedPlan,
  layers: Layers,
  form: ImageForm,
  inlineOf: Additions["inlineOf"],
): Promise<Made> {
  const { plan, outcomes } = solved;
  const { dockerTypes, annotations } = form;
  const all = await layersOf(solved, layers, form);
  const descriptors = all.map(({ descriptor }) => ({
    ...descriptor,
    mediaType: layerType(descriptor.mediaType, dockerTypes),
  }));
  const diffIDs = all.map(({ diffID }) => diffID);
  const config = blobOf(
    dockerTypes ? MEDIA.dockerConfig : MEDIA.config,
    encodeDocument(imageConfig(plan, diffIDs, (vertex) => outcomes.get(vertex)!.created, {
      ...(inlineOf && { [INLINE_MEMBER]: await inlineOf(solved) }),
    })),
  );
  const platform = platformOf(plan);
  const document = documentOf(
    dockerTypes ? MEDIA.dockerManifest : MEDIA.manifest,
    imageManifest(config.descriptor, descriptors, {
      dockerTypes,
      annotations: annotationsOf(annotations, "manifest", platform),
    }),
  );
  return {
    document,
    blobs: [...all, config],
    content: {
      platform,
      manifest: document.descriptor,
      config: config.descriptor,
      diffIDs,
      size: descriptors.reduce((sum, { size }) => sum + size, 0),
    },
  };
}

function indexOf(images: readonly Made[], extras: readonly Extra[], form: ImageForm): Document {
  const { dockerTypes, annotations } = form;
  const mediaType = dockerTypes ? MEDIA.dockerList : MEDIA.index;
  const entry = ({ document, content }: Made): Descriptor => {
    const own = annotationsOf(annotations, "manifest-descriptor", content.platform);
    return {
      ...document.descriptor,
      ...(own && { annotations: own }),
      platform: inOrderOfNames(content.platform),
    };
  };
  const own = annotationsOf(annotations, "index");
  return documentOf(mediaType, {
    schemaVersion: 2,
    mediaType,
    manifests: [
      ...images.map(entry),
      ...extras.map(({ document, entry }) => ({ ...document.descriptor, ...entry })),
    ],
    ...(own && { annotations: own }),
  });
}

const inOrderOfNames = ({ architecture, os, variant }: Platform): Platform => ({
  architecture,
  os,
  ...(variant && { variant }),
});

/** Throws `argument_invalid` for annotations that have no place. */
export async function assemble(
  solved: readonly SolvedPlan[],
  layers: Layers,
  form: ImageForm,
  { extrasOf, inlineOf }: Additions = {},
): Promise<ImageContent> {
  const images: Made[] = [];
  for (const one of solved) images.push(await makeOne(one, layers, form, inlineOf));
  const extras = await extrasOf?.(images.map(({ content }) => content)) ?? [];
  const blobs = new Map<string, ContentBlob>();
  for (const blob of [...images, ...extras].flatMap((one) => one.blobs)) {
    if (!blobs.has(blob.descriptor.digest)) blobs.set(blob.descriptor.digest, blob);
  }
  const platforms = images.map(({ content }) => content);
  const single = images.length === 1 && extras.length === 0;
  if (single) {
    refuseIndexAnnotations(form.annotations);
    const root = images[0].document;
    return { root, children: [], blobs: [...blobs.values()], platforms };
  }
  return {
    root: indexOf(images, extras, form),
    children: [...images, ...extras].map(({ document }) => document),
    blobs: [...blobs.values()],
    platforms,
  };
}

function refuseIndexAnnotations(annotations: readonly Annotation[]): void {
  const lost = annotations.find(({ level }) =>
    level === "index" || level === "manifest-descriptor"
  );
  if (!lost) return;
  throw new SvcError(
    "argument_invalid",
    `Cannot set annotation ${lost.key} of the ${lost.level}: the image has no index`,
    { help: "build for several platforms, or with an attestation, or annotate the manifest" },
  );
}
