/** Describes how an image was built: the predicate of SLSA provenance v1. */
import { createHash } from "node:crypto";
import { formatPlatform, hostPlatform } from "../../oci/platform.ts";
import { parseReference } from "../../oci/reference.ts";
import type { Platform } from "../../oci/types.ts";
import type { BuildPlan, Material } from "../plan/graph.ts";
import { purl } from "./sbom/package.ts";

export const PROVENANCE_TYPE = "https://slsa.dev/provenance/v1";
const BUILD_TYPE = "urn:svc:build:dockerfile:v1";
const BUILDER = "urn:svc:builder";

/** The parts of a build request that matter for the result. */
export interface ProvenanceInput {
  dockerfile: { path: string; text: string };
  /** Source of a fetched context; absent: the caller sent the context. */
  source?: Material;
  target?: string;
  buildArgs: Record<string, string>;
  labels: Record<string, string>;
  noCache: boolean;
  /** Milliseconds since 1970. */
  startedOn: number;
  finishedOn: number;
  /** "1.2.3". */
  version: string;
}

export interface ProvenanceOptions {
  mode: "min" | "max";
  builderId?: string;
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** An image's name as a package URL. */
export function imagePurl(name: string, platform: Platform): string {
  const { registry, repository, tag, digest } = parseReference(name);
  const slash = repository.lastIndexOf("/");
  const namespace = slash > 0 ? repository.slice(0, slash) : undefined;
  return purl("docker", namespace, repository.slice(slash + 1), digest ?? tag ?? "latest", {
    platform: formatPlatform(platform),
    ...(registry && { repository_url: registry }),
  });
}

/** Images, and the files that ADD and named contexts took from URLs and git. */
function dependencies(plan: BuildPlan, source: Material | undefined): Material[] {
  const found = new Map<string, Material>();
  const add = (one: Material) => found.set(`${one.uri} ${JSON.stringify(one.digest)}`, one);
  if (source) add(source);
  for (const vertex of plan.vertices) {
    const taken = vertex.kind === "tree" ? vertex.tree.material?.() : undefined;
    if (taken) add(taken);
    if (vertex.kind !== "image") continue;
    const { name, descriptor, config } = vertex.image;
    const [algorithm, hex] = descriptor.digest.split(":");
    add({ uri: imagePurl(name, config), digest: { [algorithm]: hex } });
  }
  return [...found].sort(([a], [b]) => a < b ? -1 : 1).map(([, one]) => one);
}

/**
 * Makes the predicate. SOURCE_DATE_EPOCH replaces the clock and the random id, so that the same build gives
 * the same document. `min` leaves out the values of build arguments: they may hold things that are not to be
 * published.
 */
export function provenance(
  plan: BuildPlan,
  input: ProvenanceInput,
  { mode, builderId = BUILDER }: ProvenanceOptions,
): Record<string, unknown> {
  const { dockerfile, source, target, buildArgs, labels, noCache } = input;
  const max = mode === "max";
  const sorted = (record: Record<string, string>) =>
    Object.fromEntries(Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1));
  const buildDefinition = {
    buildType: BUILD_TYPE,
    externalParameters: {
      configSource: {
        ...source ?? { digest: { sha256: sha256(dockerfile.text) } },
        path: dockerfile.path,
      },
      request: {
        platform: formatPlatform(plan.platform),
        ...(target !== undefined && { target }),
        ...(max && { buildArgs: sorted(buildArgs), labels: sorted(labels), noCache }),
      },
    },
    internalParameters: {
      builderVersion: input.version,
      builderPlatform: formatPlatform(hostPlatform()),
      ...(max && {
        dockerfile: dockerfile.text,
        steps: plan.vertices.map(({ name, line }) => ({ name, ...(line && { line }) })),
      }),
    },
    resolvedDependencies: dependencies(plan, source),
  };
  const { epoch } = plan;
  const time = (ms: number) => new Date(epoch === undefined ? ms : epoch * 1000).toISOString();
  return {
    buildDefinition,
    runDetails: {
      builder: { id: builderId, version: { svc: input.version } },
      metadata: {
        invocationId: epoch === undefined
          ? crypto.randomUUID()
          : sha256(JSON.stringify(buildDefinition)).slice(0, 32),
        startedOn: time(input.startedOn),
        finishedOn: time(input.finishedOn),
      },
    },
  };
}
