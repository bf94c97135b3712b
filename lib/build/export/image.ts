/** The documents of a built image: config with history, and manifest. */
import {
  type Descriptor,
  type Digest,
  type HistoryEntry,
  type ImageConfig,
  type Manifest,
  MEDIA,
  type Platform,
} from "../../oci/types.ts";
import type { BuildPlan, Vertex } from "../plan/graph.ts";

const COMMENT = "buildkit.dockerfile.v0";

const isoTime = (ms: number) => new Date(ms).toISOString().replace(".000Z", "Z");

/**
 * Makes the config. `createdOf` gives the time of a step in milliseconds since 1970; with all steps from the
 * cache the document is the same again. With an epoch, all that this build adds has the epoch's time, and no
 * time is later.
 */
export function imageConfig(
  plan: BuildPlan,
  diffIDs: Digest[],
  createdOf: (vertex: Vertex) => number,
  more: Record<string, unknown> = {},
): ImageConfig {
  const base = plan.base?.config;
  const latest = plan.epoch === undefined ? Infinity : plan.epoch * 1000;
  const history: HistoryEntry[] = structuredClone(base?.history ?? []);
  for (const entry of history) {
    if (Date.parse(entry.created ?? "") > latest) entry.created = isoTime(latest);
  }
  // Instructions before the first new layer take its time: the base image's time is not this build's.
  const steps = plan.history.flatMap(({ vertex }) => vertex ?? []);
  const last = Date.parse(
    history.findLast(({ created }) => created)?.created ?? base?.created ?? "",
  );
  let time = steps.length > 0 ? createdOf(steps[0]) : Number.isNaN(last) ? 0 : last;
  if (plan.epoch !== undefined) time = latest;
  for (const { entry, vertex } of plan.history) {
    if (vertex && plan.epoch === undefined) time = createdOf(vertex);
    history.push({
      created: isoTime(time),
      ...entry,
      comment: COMMENT,
      ...(!vertex && { empty_layer: true }),
    });
  }
  return {
    created: isoTime(time),
    ...(plan.author !== undefined && { author: plan.author }),
    ...platformOf(plan),
    config: sortedConfig(plan.config),
    rootfs: { type: "layers", diff_ids: diffIDs },
    history,
    ...more,
  };
}

/** The base image's platform, whatever platform was requested. */
export function platformOf({ base, platform }: BuildPlan): Platform {
  if (!base) return platform;
  const { os, architecture, variant } = base.config;
  return { os, architecture, ...(variant && { variant }) };
}

/** Maps sorted by key, as Go writes them, so that the order of assignment does not change the digest. */
function sortedConfig(config: BuildPlan["config"]): BuildPlan["config"] {
  const sorted = <T>(record: Record<string, T> | undefined) =>
    record && Object.fromEntries(Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1));
  const result = { ...config };
  if (config.Labels) result.Labels = sorted(config.Labels);
  if (config.ExposedPorts) result.ExposedPorts = sorted(config.ExposedPorts);
  if (config.Volumes) result.Volumes = sorted(config.Volumes);
  // Empty values are left out: they mean the same as absent ones.
  const says = (value: unknown) =>
    value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0);
  return Object.fromEntries(
    Object.entries(result).filter(([, value]) => says(value))
      .sort(([a], [b]) => a < b ? -1 : 1),
  );
}

export function imageManifest(
  config: Descriptor,
  layers: Descriptor[],
  { dockerTypes = false, annotations }: {
    dockerTypes?: boolean;
    annotations?: Record<string, string>;
  } = {},
): Manifest {
  return {
    schemaVersion: 2,
    mediaType: dockerTypes ? MEDIA.dockerManifest : MEDIA.manifest,
    config,
    layers,
    ...(annotations && { annotations }),
  };
}
