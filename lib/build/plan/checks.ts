/**
 * Build checks that need more than the text: the variables of base images, and the files that the context
 * leaves out.
 */
import { SvcError } from "../../base/errors.ts";
import { formatPlatform } from "../../oci/platform.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Platform } from "../../oci/types.ts";
import type { Directives, KnownFacts, Warning } from "../parse/ast.ts";
import type { Ignore } from "../parse/ignore.ts";
import { parseDockerfile } from "../parse/parse.ts";
import type { CopyVertex, Vertex } from "./graph.ts";

/** What the checks use besides the plan. */
export interface CheckInput {
  /** The Dockerfile. */
  text: string;
  /** The context's ignore rules. */
  ignore: Ignore;
}

type Found = KnownFacts["found"][number];

/** A base image for another platform than the build's; undefined where the platforms match. */
export function otherPlatform(
  { name, config }: ResolvedImage,
  wanted: Platform,
  line: number,
): Found | undefined {
  const { os, architecture, variant } = config;
  if (os === wanted.os && architecture === wanted.architecture) return undefined;
  const is = formatPlatform({ os, architecture, variant });
  return {
    rule: "InvalidBaseImagePlatform",
    line,
    message: `${name} is for ${is}, not for ${formatPlatform(wanted)}: so is what is built on it`,
  };
}

/**
 * Warnings of a planned Dockerfile. `environments`: by stage, the names of the variables that are set where
 * the stage begins.
 */
export function warningsOf(
  { text, ignore }: CheckInput,
  { file, vertices, environments, otherPlatforms }: {
    file: string;
    otherPlatforms: readonly Found[];
    vertices: Vertex[];
    environments: ReadonlyMap<number, Iterable<string>>;
  },
): Warning[] {
  // With "!" rules a part of an excluded folder may be in the context after all; docker then gives no
  // warning.
  const copies = ignore.hasExceptions
    ? []
    : vertices.filter((vertex): vertex is CopyVertex => vertex.kind === "copy");
  const found = copies.flatMap(({ instruction, parts, line = 1 }) =>
    parts.flatMap(({ from, fromName, sources }) =>
      from === "context" && fromName === undefined
        ? sources.filter((path) => ignore.excludes(path)).map((path): Found => ({
          rule: "CopyIgnoredFile",
          line,
          message: `${instruction} takes ${path}, which .dockerignore leaves out of the context`,
        }))
        : []
    )
  );
  const known = { environments, found: [...found, ...otherPlatforms] };
  return parseDockerfile(text, { file, known }).warnings;
}

/** For `# check=error=true`: throws `dockerfile_invalid` where there are warnings. */
export function requireClean(file: string, { check }: Directives, warnings: Warning[]): void {
  if (!check?.error || warnings.length === 0) return;
  const [{ rule, message, line }] = warnings;
  throw new SvcError(
    "dockerfile_invalid",
    `Cannot build ${file}: line ${line}: ${rule}: ${message}`,
    {
      help: "correct it, or leave the rule out with # check=skip=RULE;error=true",
      detail: { file, line },
    },
  );
}
