/**
 * Platforms of the OCI Image Specification 1.1 ("Image Index"): `os/architecture[/variant]`, in Go's names.
 * Comparisons fill in the variant that an architecture implies (v8 for arm64, v7 for arm).
 */
import { SvcError } from "../base/errors.ts";
import type { Descriptor, Index, Platform } from "./types.ts";

const ARCHITECTURES: Record<string, [architecture: string, variant?: string]> = {
  x86_64: ["amd64"],
  "x86-64": ["amd64"],
  aarch64: ["arm64"],
  armhf: ["arm", "v7"],
  armel: ["arm", "v6"],
  i386: ["386"],
  i686: ["386"],
  x86: ["386"],
};

const DEFAULT_VARIANT: Record<string, string> = { arm64: "v8", arm: "v7", amd64: "v1" };

const OPERATING_SYSTEMS: Record<string, string> = { macos: "darwin" };

/** The platform in Go's names, with an implied variant filled in: "linux/arm64" becomes "linux/arm64/v8". */
function normalised(platform: Platform): Platform & { variant: string } {
  const os = platform.os.toLowerCase();
  const name = platform.architecture.toLowerCase();
  const [architecture, implied] = ARCHITECTURES[name] ?? [name];
  let variant = platform.variant?.toLowerCase() || implied || "";
  if (/^\d+$/.test(variant) && architecture.startsWith("arm")) variant = `v${variant}`;
  return {
    ...platform,
    os: OPERATING_SYSTEMS[os] ?? os,
    architecture,
    variant: variant || DEFAULT_VARIANT[architecture] || "",
  };
}

/** The platform of images for this machine: Linux, unless the machine runs Windows. */
export function hostPlatform(): Platform {
  return {
    os: Deno.build.os === "windows" ? "windows" : "linux",
    architecture: ARCHITECTURES[Deno.build.arch]?.[0] ?? Deno.build.arch,
  };
}

/**
 * Reads "linux/arm64/v8", "linux/amd64", or an operating system or architecture alone (the rest is the
 * host's). Aliases (x86_64, aarch64, armhf) become Go's names. Throws `argument_invalid`.
 */
export function parsePlatform(text: string): Platform {
  const parts = text.trim().split("/");
  if (parts.length > 3 || parts.some((part) => !/^[A-Za-z0-9_.-]+$/.test(part))) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read platform ${JSON.stringify(text)}: expected os/architecture[/variant], ` +
        `such as linux/arm64`,
    );
  }
  const host = hostPlatform();
  let [os, architecture, variant] = parts as [string, string?, string?];
  if (architecture === undefined) {
    const known = /^(linux|windows|darwin|macos|freebsd)$/i.test(os);
    [os, architecture] = known ? [os, host.architecture] : [host.os, os];
  }
  const full = normalised({ os, architecture, variant });
  const platform: Platform = { os: full.os, architecture: full.architecture };
  // Names leave out v8 for arm64 and v1 for amd64, but not v7 for arm.
  if (
    full.variant &&
    (full.architecture === "arm" || full.variant !== DEFAULT_VARIANT[full.architecture])
  ) {
    platform.variant = full.variant;
  }
  return platform;
}

/** "linux/arm/v7". */
export function formatPlatform(platform: Platform): string {
  return [platform.os, platform.architecture, platform.variant].filter(Boolean).join("/");
}

/** "v7" → 7; "v8.2" → 8.2; anything else undefined. */
function level(variant: string): number | undefined {
  const match = /^v(\d+(?:\.\d+)?)$/.exec(variant);
  return match ? Number(match[1]) : undefined;
}

/**
 * How well an image for `offered` runs on `wanted`: higher is better, undefined means not at all. The exact
 * variant is best; a lower variant also runs on a higher machine (arm v6 on v7, amd64 v1 on v3).
 */
function score(offered: Platform, wanted: Platform): number | undefined {
  const [a, b] = [normalised(offered), normalised(wanted)];
  if (a.os !== b.os || a.architecture !== b.architecture) return undefined;
  const exactVersion = wanted["os.version"] !== undefined &&
      offered["os.version"] === wanted["os.version"]
    ? 0.5
    : 0;
  if (a.variant === b.variant) return 1000 + exactVersion;
  const [have, can] = [level(a.variant), level(b.variant)];
  return have !== undefined && can !== undefined && have < can ? have + exactVersion : undefined;
}

/** True where an image for `offered` runs on `wanted`. */
export function platformMatches(offered: Platform, wanted: Platform): boolean {
  return score(offered, wanted) !== undefined;
}

/**
 * The entry of an index to use on `platform`: exact variant first, then the nearest lower one; of equals
 * the first. Attestation manifests (platform unknown/unknown) are never chosen. An index whose entries
 * name no platform gives its only entry.
 */
export function selectPlatform(
  index: Pick<Index, "manifests">,
  platform: Platform = hostPlatform(),
): Descriptor | undefined {
  let best: Descriptor | undefined;
  let most = -1;
  for (const descriptor of index.manifests) {
    const points = descriptor.platform && score(descriptor.platform, platform);
    if (points !== undefined && points > most) [best, most] = [descriptor, points];
  }
  if (best) return best;
  const [only, ...others] = index.manifests;
  return only && others.length === 0 && !only.platform ? only : undefined;
}
