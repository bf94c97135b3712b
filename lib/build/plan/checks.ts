/** Build checks that the text alone does not decide: what base images set, what the context leaves out. */
import { SvcError } from "../../base/errors.ts";
import type { Directives, Warning } from "../parse/ast.ts";
import type { Ignore } from "../parse/ignore.ts";
import { parseDockerfile } from "../parse/parse.ts";
import type { CopyVertex, Vertex } from "./graph.ts";

/** What the checks need beside the plan. */
export interface CheckInput {
  /** The Dockerfile. */
  text: string;
  /** The context's rules. */
  ignore: Ignore;
}

/** The warnings of a planned Dockerfile. `environments`: names that are set where a stage begins, by stage. */
export function warningsOf(
  { text, ignore }: CheckInput,
  { file, vertices, environments }: {
    file: string;
    vertices: Vertex[];
    environments: ReadonlyMap<number, Iterable<string>>;
  },
): Warning[] {
  // With "!" in the rules part of an excluded folder may come after all: docker does not guess.
  const copies = ignore.hasExceptions
    ? []
    : vertices.filter((vertex): vertex is CopyVertex => vertex.kind === "copy");
  const ignored = copies.flatMap(({ instruction, parts, line = 1 }) =>
    parts.flatMap(({ from, fromName, sources }) =>
      from === "context" && fromName === undefined
        ? sources.filter((path) => ignore.excludes(path)).map((path) => ({
          instruction,
          line,
          path,
        }))
        : []
    )
  );
  return parseDockerfile(text, { file, known: { environments, ignored } }).warnings;
}

/** `# check=error=true`: a warning is a failure. Throws `dockerfile_invalid`. */
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
