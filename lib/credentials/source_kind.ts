/** What a kind of source is: how values are made at the caller, when they are asked for. */
import { SvcError } from "../base/errors.ts";
import { type Credential, TEXT_FORMATS, type TextFormat } from "./credential.ts";

/** The caller's machine. */
export interface Surroundings {
  env: Readonly<Record<string, string | undefined>>;
  /** The folder that relative paths start from: the spec's, or the current one. */
  folder: string;
  /** SVC_GH_BIN. */
  ghBin?: string;
  /** Tells the person at the caller; the text may be a program's own words, which never leave this machine. */
  notice(text: string): void;
}

export interface SourceRequest {
  /** The credential's name, for errors. */
  name: string;
  config: Readonly<Record<string, string>>;
  around: Surroundings;
  signal: AbortSignal;
}

export interface SourceKind {
  help: string;
  /** Keys of `config`, each with its meaning; "any": the keys are the caller's own. */
  config: Readonly<Record<string, string>> | "any";
  /** Keys that must be there. */
  required?: readonly string[];
  /** Milliseconds that values are kept where the spec has no `ttl`; absent: they do not change. */
  keepMs?: number;
  /** Makes the values. Throws without any of them in the error: its message goes to the server. */
  make(request: SourceRequest): Promise<Credential>;
}

export const MINUTE_MS = 60_000;

/** The error of a source. `why` goes to the server: it has no secret. */
export const cannotMake = (name: string, why: string, help?: string) =>
  new SvcError("prerequisite_missing", `Cannot make credential ${name}: ${why}`, { help });

/** Throws where `config.format` is no format. */
export function textFormat({ name, config: { format = "raw" } }: SourceRequest): TextFormat {
  const found = TEXT_FORMATS.find((one) => one === format);
  if (found) return found;
  throw cannotMake(
    name,
    `config.format is ${JSON.stringify(format)}`,
    `write one of ${TEXT_FORMATS.join(", ")}`,
  );
}
