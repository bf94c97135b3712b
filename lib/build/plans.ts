/** Makes the plans of a build, one for each platform. */
import { type Entitlement, parseEntitlement } from "../api/build_entitlements.ts";
import { SvcError } from "../base/errors.ts";
import { formatPlatform } from "../oci/platform.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Platform } from "../oci/types.ts";
import type { BuildRequest } from "./builder.ts";
import { planContexts } from "./named_contexts.ts";
import { type Ignore, parseIgnore } from "./parse/ignore.ts";
import type { BuildPlan } from "./plan/graph.ts";
import type { Planners } from "./plan/planners.ts";

/** The parts of a context that a plan is made from. */
export interface PlannedText {
  /** Text of the Dockerfile; undefined where it is missing. */
  dockerfile?: string;
  /** Rules, or their text. */
  ignore: Ignore | string;
}

export interface PlansInput {
  planners: Planners;
  images: ImageResolver;
  /** What requests may ask for with `allow`. */
  entitlements?: readonly Entitlement[];
  request: BuildRequest;
  platforms: readonly Platform[];
  signal: AbortSignal;
}

/** The parts of the context that the caller has sent ahead; undefined where it has not. */
export function toldText({ context, contextUrl }: BuildRequest): PlannedText | undefined {
  return contextUrl !== undefined || context instanceof ReadableStream ? undefined : context;
}

/**
 * The requested entitlements that the server permits; which devices they mean is decided by the host's CDI
 * files.
 */
export function allowedOf(
  { entitlements = [], request }: Pick<PlansInput, "entitlements" | "request">,
): Entitlement[] {
  const rights = new Set(entitlements.map((text) => parseEntitlement(text).right));
  // A request that gives all steps the host's network asks for its entitlement too.
  const asked: Entitlement[] = [
    ...request.allow ?? [],
    ...request.network === "host" ? ["network.host" as const] : [],
  ];
  return asked.filter((text) => rights.has(parseEntitlement(text).right));
}

/** Names vertices by platform, where there are several: "[linux/arm64 build 1/2] RUN make". */
function nameByPlatform(plan: BuildPlan): void {
  const platform = formatPlatform(plan.platform);
  for (const vertex of plan.vertices) {
    vertex.id = `${platform} ${vertex.id}`;
    vertex.name = vertex.name.startsWith("[")
      ? `[${platform} ${vertex.name.slice(1)}`
      : `[${platform}] ${vertex.name}`;
  }
}

/**
 * Where the server tells callers apart, cache mounts belong to the caller, unless it asks for the shared
 * mounts and the server permits that. Throws `denied`.
 */
function ownCaches(plans: readonly BuildPlan[], input: PlansInput): void {
  const { request: { caller, dockerfile, allow } } = input;
  const owner = caller?.cacheOwner;
  if (owner === undefined || allowedOf(input).includes("cache.shared")) return;
  for (const { line, ...vertex } of plans.flatMap(({ vertices }) => vertices)) {
    for (const mount of vertex.kind === "run" ? vertex.mounts : []) {
      if (mount.type !== "cache") continue;
      if (allow?.includes("cache.shared")) {
        throw new SvcError(
          "denied",
          `Cannot build ${dockerfile}: line ${line}: the server does not permit shared cache mounts`,
          {
            help:
              "leave --allow cache.shared out, and the mount is your own; or ask for cache.shared " +
              "in SVC_BUILD_ENTITLEMENTS",
            detail: { line, file: dockerfile },
          },
        );
      }
      mount.owner = owner;
    }
  }
}

/** One plan per platform. Throws `dockerfile_invalid`, also where there is no Dockerfile. */
export async function plansOf(
  { dockerfile: text, ignore }: PlannedText,
  input: PlansInput,
): Promise<BuildPlan[]> {
  const { planners, images, request, platforms, signal } = input;
  const { dockerfile: file, target, buildArgs, labels, addHosts, pull, network } = request;
  if (text === undefined) {
    throw new SvcError(
      "dockerfile_invalid",
      `Cannot build: ${file} is not in the build context`,
      { help: "name the Dockerfile with -f, relative to the context" },
    );
  }
  const rules = typeof ignore === "string" ? parseIgnore(ignore) : ignore;
  const contexts = planContexts(request.contexts);
  const plans = await planners.plan({
    text,
    file,
    ignore: { patterns: rules.patterns, ...rules.file !== undefined && { file: rules.file } },
    target,
    buildArgs,
    labels,
    platforms,
    contexts: [...contexts].map(([name, context]) => [
      name,
      "image" in context ? context : { label: context.label },
    ]),
    addHosts,
    network,
    allow: allowedOf(input),
  }, { images, contexts, pull, signal });
  ownCaches(plans, input);
  if (platforms.length > 1) plans.forEach(nameByPlatform);
  return plans;
}
