/**
 * `.dockerignore` ("dockerignore files" of docker's build context documentation), and the same patterns where
 * COPY and ADD take them (`--exclude`).
 */
import { posix } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import { compilePath, MOST_TOKENS, type PathPattern } from "./path_pattern.ts";

interface Rule {
  /** `!pattern`: brings back what an earlier pattern excluded. */
  negated: boolean;
  pattern: PathPattern;
  /** Patterns of the path components; undefined where `**` may match any number of components. */
  components?: (PathPattern | undefined)[];
}

/** A line of a `.dockerignore`, or an `--exclude` (without a line). */
export interface IgnorePattern {
  pattern: string;
  line?: number;
}

/** Highest total cost of rules: every path is compared with every rule. */
const MOST_COST = 16_384;

/** Cost of a rule without wildcards, which is compared quickly. */
const LITERAL_COST = 4;

/** Most characters of a file of rules. */
const LONGEST = 1 << 20;

/** Number of paths to check before other work gets its turn; `most` is that number without rules. */
export const pathsAtOnce = (most: number, rules: Ignore | undefined): number =>
  Math.max(1, Math.floor(most / (1 + (rules?.cost ?? 0) / 64)));

/** Candidates for the ignore file, in order of preference, for a Dockerfile at `dockerfile`. */
export function ignoreFiles(dockerfile: string): string[] {
  return [`${dockerfile}.dockerignore`, ".dockerignore"];
}

/** Parses the text of a `.dockerignore`. Throws `context_invalid` with `detail.line` for a malformed pattern. */
export function parseIgnore(text: string, file = ".dockerignore"): Ignore {
  if (text.length > LONGEST) {
    throw new SvcError(
      "context_invalid",
      `Cannot use ${file}: it is larger than ${LONGEST >> 20} MiB`,
      { help: "leave out whole folders" },
    );
  }
  const patterns: { pattern: string; line: number }[] = [];
  for (const [index, line] of text.replace(/^\uFEFF/, "").split(/\r?\n/).entries()) {
    if (!line.startsWith("#") && line.trim() !== "") {
      patterns.push({ pattern: line, line: index + 1 });
    }
  }
  return new Ignore(patterns, file);
}

/** The patterns of `--exclude` flags, expanded. Throws `context_invalid`. */
export function ignorePatterns(patterns: string[]): Ignore {
  return new Ignore(patterns.map((pattern) => ({ pattern })));
}

/**
 * Decides which paths of a tree are left out. The last rule that matches a path or a folder above it decides.
 */
export class Ignore {
  private readonly rules: Rule[] = [];
  /** Cost of checking a path: a constant per literal rule, the characters of a rule with wildcards. */
  readonly cost: number = 0;
  /**
   * For each folder, which rules match it or a folder above it. Kept because a walk asks for siblings in a
   * row.
   */
  private readonly folders = new Map<string, boolean[]>();
  /** True where there are `!` patterns. */
  readonly hasExceptions: boolean;

  constructor(readonly patterns: IgnorePattern[], readonly file?: string) {
    for (const { pattern, line } of patterns) {
      const rule = compileRule(pattern);
      if (rule === "malformed") {
        const where = line === undefined ? "" : ` on line ${line} of ${file}`;
        throw new SvcError(
          "context_invalid",
          `Cannot use the pattern ${JSON.stringify(pattern.trim().slice(0, 200))}${where}: ` +
            "it is malformed, or too long",
          {
            help:
              "close its brackets, and put something behind a backslash or an exclamation mark; " +
              `with wildcards it has at most ${MOST_TOKENS} characters`,
            ...(line === undefined ? {} : { detail: { line, file } }),
          },
        );
      }
      if (rule === undefined) continue;
      this.rules.push(rule);
      this.cost += rule.pattern.tokens ?? LITERAL_COST;
      if (this.cost <= MOST_COST) continue;
      throw new SvcError(
        "context_invalid",
        `Cannot use ${
          file ?? "the patterns"
        }: there are too many, or those with wildcards are too long`,
        { help: "leave out whole folders", ...(line && { detail: { line, file } }) },
      );
    }
    this.hasExceptions = this.rules.some((rule) => rule.negated);
  }

  /** True where no rule can exclude anything. */
  get empty(): boolean {
    return this.rules.length === 0;
  }

  /** `path` is relative to the context's root, with "/", without "./" in front. */
  excludes(path: string): boolean {
    const clean = posix.normalize(path).replace(/^\/+|\/+$/g, "");
    if (clean === "" || clean === ".") return false;
    let excluded = false;
    for (const [index, match] of this.matches(clean).entries()) {
      if (match) excluded = !this.rules[index].negated;
    }
    return excluded;
  }

  /** True where a folder is excluded and no `!` pattern can bring back anything in it. */
  canSkipDir(path: string): boolean {
    if (!this.excludes(path)) return false;
    const parts = posix.normalize(path).replace(/^\/+|\/+$/g, "").split("/");
    return !this.rules.some(({ negated, components }) => {
      if (!negated) return false;
      if (components === undefined) return true;
      return parts.every((part, index) =>
        index >= components.length || (components[index]?.matches(part) ?? true)
      );
    });
  }

  private matches(path: string): boolean[] {
    const slash = path.lastIndexOf("/");
    const above = slash === -1 ? undefined : this.folder(path.slice(0, slash));
    return this.rules.map(({ pattern }, index) =>
      (above?.[index] ?? false) || pattern.matches(path)
    );
  }

  private folder(path: string): boolean[] {
    const known = this.folders.get(path);
    if (known !== undefined) return known;
    const matches = this.matches(path);
    if (this.folders.size >= 10_000) this.folders.clear();
    this.folders.set(path, matches);
    return matches;
  }
}

function compileRule(line: string): Rule | "malformed" | undefined {
  let text = line.trim();
  if (text === "") return undefined;
  const negated = text.startsWith("!");
  if (negated) text = text.slice(1).trim();
  if (text === "") return "malformed";
  const clean = posix.normalize(text);
  const path = clean === "/" ? "." : clean.replace(/^\/+/, "").replace(/\/+$/, "");
  const pattern = compilePath(path, true);
  if (pattern === undefined) return "malformed";
  if (path.includes("**")) return { negated, pattern };
  const components = path.split("/").map((part) => compilePath(part, true));
  return { negated, pattern, components };
}
