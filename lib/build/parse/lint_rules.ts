/** The rules of `docker build --check` that the text alone decides, and how their warnings read. */
import type { Directives, Warning } from "./ast.ts";
import { parseCheck } from "./directives.ts";

/** Name of a rule and the last part of its page's address. */
export const RULES = {
  StageNameCasing: "stage-name-casing",
  FromAsCasing: "from-as-casing",
  NoEmptyContinuation: "no-empty-continuation",
  ConsistentInstructionCasing: "consistent-instruction-casing",
  DuplicateStageName: "duplicate-stage-name",
  ReservedStageName: "reserved-stage-name",
  JSONArgsRecommended: "json-args-recommended",
  MaintainerDeprecated: "maintainer-deprecated",
  UndefinedArgInFrom: "undefined-arg-in-from",
  WorkdirRelativePath: "workdir-relative-path",
  UndefinedVar: "undefined-var",
  MultipleInstructionsDisallowed: "multiple-instructions-disallowed",
  LegacyKeyValueFormat: "legacy-key-value-format",
  RedundantTargetPlatform: "redundant-target-platform",
  SecretsUsedInArgOrEnv: "secrets-used-in-arg-or-env",
  InvalidDefaultArgInFrom: "invalid-default-arg-in-from",
  FromPlatformFlagConstDisallowed: "from-platform-flag-const-disallowed",
  CopyIgnoredFile: "copy-ignored-file",
  InvalidDefinitionDescription: "invalid-definition-description",
  ExposeProtoCasing: "expose-proto-casing",
  ExposeInvalidFormat: "expose-invalid-format",
  InvalidBaseImagePlatform: "invalid-base-image-platform",
} as const;

export type Rule = keyof typeof RULES;

/** Off unless `# check=experimental=…` names them. */
const EXPERIMENTAL: readonly Rule[] = ["InvalidDefinitionDescription", "CopyIgnoredFile"];

function warning(rule: Rule, line: number, message: string): Warning {
  return { rule, message, line, url: `https://docs.docker.com/go/dockerfile/rule/${RULES[rule]}/` };
}

type Check = NonNullable<Directives["check"]>;

const named = (list: string[] | "all", rule: Rule): boolean =>
  list === "all" || list.some((name) => name.toLowerCase() === rule.toLowerCase());

/** Nobody reads more, and a file that is all mistakes must not keep the server busy. */
const MOST = 500;

/** Collects warnings, without those that the file tells to skip. */
export class Linter {
  private readonly found: Warning[] = [];
  private readonly check?: Check;
  private readonly local = new Map<number, Check>();

  constructor(check?: Check) {
    this.check = check;
  }

  /** `# check=skip=…` straight above an instruction counts for that instruction. */
  instruction(line: number, comments: string[]): void {
    for (const comment of comments) {
      const match = /^check\s*=\s*(.+)$/i.exec(comment);
      const check = match ? parseCheck(match[1]) : undefined;
      if (check && !("reason" in check)) this.local.set(line, check);
    }
  }

  /** Further warnings are dropped. */
  get full(): boolean {
    return this.found.length >= MOST;
  }

  /** `at`: the instruction's line where it is not the warning's own. */
  warn(rule: Rule, line: number, message: string, at = line): void {
    const checks = [this.check, this.local.get(at)].filter((check) => check !== undefined);
    if (checks.some((check) => named(check.skip, rule))) return;
    if (
      EXPERIMENTAL.includes(rule) && !checks.some((check) => named(check.experimental, rule))
    ) return;
    if (!this.full) this.found.push(warning(rule, line, message));
  }

  /** By line, each once. */
  get warnings(): Warning[] {
    const seen = new Set<string>();
    return this.found
      .filter(({ rule, line, message }) => {
        const key = `${rule}\n${line}\n${message}`;
        return !seen.has(key) && seen.add(key);
      })
      .sort((a, b) => a.line - b.line);
  }
}
