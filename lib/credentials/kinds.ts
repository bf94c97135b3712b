/** The kinds of sources, by the name that a spec's `backend` has. */
import { parseDuration } from "../base/duration.ts";
import { SvcError } from "../base/errors.ts";
import type { CredentialSource } from "../api/deploy_spec.ts";
import { AWS_STS } from "./aws_sts.ts";
import { KeptSource } from "./kept_source.ts";
import { CLAUDE, CODEX, GEMINI } from "./llm_logins.ts";
import { ENV, FILE, STATIC } from "./plain_sources.ts";
import { EXEC, GH } from "./program_sources.ts";
import type { SourceKind, Surroundings } from "./source_kind.ts";

export const SOURCE_KINDS: Readonly<Record<string, SourceKind>> = {
  static: STATIC,
  env: ENV,
  file: FILE,
  exec: EXEC,
  "aws-sts": AWS_STS,
  gh: GH,
  claude: CLAUDE,
  codex: CODEX,
  gemini: GEMINI,
};

/** Keeps less than this are a mistake: every request would make values anew. */
const LEAST_TTL_MS = 1000;

const invalid = (path: string, why: string, help?: string) =>
  new SvcError("spec_invalid", `Cannot use credentials: ${path}: ${why}`, { help });

function kindOf({ backend, name }: CredentialSource, path: string): SourceKind {
  const word = backend ?? name;
  if (Object.hasOwn(SOURCE_KINDS, word)) return SOURCE_KINDS[word];
  const known = Object.keys(SOURCE_KINDS).join(", ");
  throw backend === undefined
    ? invalid(`${path}.backend`, `required; ${name} is no kind of source`, `write one of ${known}`)
    : invalid(`${path}.backend`, `expected one of ${known}`);
}

function checkConfig(kind: SourceKind, config: Record<string, string>, path: string): void {
  if (kind.config === "any") {
    if (Object.keys(config).length === 0) throw invalid(`${path}.config`, "required: its values");
    return;
  }
  for (const key of Object.keys(config)) {
    if (Object.hasOwn(kind.config, key)) continue;
    const known = Object.keys(kind.config).join(", ");
    throw invalid(`${path}.config.${key}`, `expected one of ${known}`);
  }
  for (const key of kind.required ?? []) {
    if (!config[key]) throw invalid(`${path}.config.${key}`, `required: ${kind.config[key]}`);
  }
}

/** The sources of a checked spec, by name, on the caller's machine. Throws `spec_invalid` with the field's path. */
export function openSources(
  sources: readonly CredentialSource[],
  around: Surroundings,
): ReadonlyMap<string, KeptSource> {
  return new Map(sources.map((source, index) => {
    const path = `credentials.sources[${index}]`;
    const { name, config = {}, ttl } = source;
    const kind = kindOf(source, path);
    checkConfig(kind, config, path);
    const keepMs = ttl === undefined ? kind.keepMs : parseDuration(ttl);
    if (keepMs !== undefined && keepMs < LEAST_TTL_MS) {
      throw invalid(`${path}.ttl`, "expected at least 1s");
    }
    const make = (signal: AbortSignal) => kind.make({ name, config, around, signal });
    return [name, new KeptSource({ name, make, keepMs, notice: around.notice })];
  }));
}
