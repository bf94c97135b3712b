/** The rules of `docker build --check` that the text alone decides, with their messages. */
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

/** Rules that are off unless `# check=experimental=…` names them. */
const EXPERIMENTAL: readonly Rule[] = ["InvalidDefinitionDescription", "CopyIgnoredFile"];

function warning(rule: Rule, line: number, message: string): Warning {
  return { rule, message, line, url: `https://docs.docker.com/go/dockerfile/rule/${RULES[rule]}/` };
}

type Check = NonNullable<Directives["check"]>;

const named = (list: string[] | "all", rule: Rule): boolean =>
  list === "all" || list.some((name) => name.toLowerCase() === rule.toLowerCase());

/** Most warnings: nobody reads more, and a file full of mistakes must not keep the server busy. */
const MOST = 500;

/** Collects warnings, without the rules that the file skips. */
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

  /** True once further warnings are dropped. */
  get full(): boolean {
    return this.found.length >= MOST;
  }

  /** `at`: line of the instruction, where it differs from the warning's line. */
  warn(rule: Rule, line: number, message: string, at = line): void {
    const checks = [this.check, this.local.get(at)].filter((check) => check !== undefined);
    if (checks.some((check) => named(check.skip, rule))) return;
    if (
      EXPERIMENTAL.includes(rule) && !checks.some((check) => named(check.experimental, rule))
    ) return;
    if (!this.full) this.found.push(warning(rule, line, message));
  }

  /** By line, without duplicates. */
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
