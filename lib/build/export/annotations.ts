/**
 * Annotations that a build sets, in buildx's two forms: `--annotation` with `[LEVEL[PLATFORM],…:]KEY=VALUE`,
 * and the field `annotation[-LEVEL][PLATFORM].KEY=VALUE` of `--output`.
 */
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { formatPlatform, parsePlatform } from "../../oci/platform.ts";
import type { Platform } from "../../oci/types.ts";

const ANNOTATION_LEVELS = [
  "manifest",
  "index",
  "manifest-descriptor",
  "index-descriptor",
] as const;
export type AnnotationLevel = typeof ANNOTATION_LEVELS[number];

export interface Annotation {
  level: AnnotationLevel;
  /** "os/arch"; absent: every platform. */
  platform?: string;
  key: string;
  value: string;
}

const invalid = (text: string, why: string) =>
  new SvcError("argument_invalid", `Cannot read annotation ${JSON.stringify(text)}: ${why}`, {
    help: "write KEY=VALUE, or LEVEL:KEY=VALUE",
  });

function target(text: string, word: string): Pick<Annotation, "level" | "platform"> {
  const match = /^([a-z-]+)(?:\[([^\]]*)\])?$/.exec(word);
  const level = ANNOTATION_LEVELS.find((known) => known === match?.[1]);
  if (!level) {
    throw invalid(
      text,
      `there is no level ${JSON.stringify(match?.[1] ?? word)}${
        suggestion(word, ANNOTATION_LEVELS)
      }`,
    );
  }
  const platform = match![2];
  return { level, ...(platform && { platform: formatPlatform(parsePlatform(platform)) }) };
}

/** Reads `--annotation`; several levels give several annotations. Throws `argument_invalid`. */
export function parseAnnotation(text: string): Annotation[] {
  const equals = text.indexOf("=");
  if (equals < 1) throw invalid(text, "the value is missing");
  const [name, value] = [text.slice(0, equals), text.slice(equals + 1)];
  // A key may hold a colon: only what reads as levels is taken as levels.
  const levels = /^((?:[a-z-]+(?:\[[^\]]*\])?,?)+):(.+)$/.exec(name);
  if (!levels) return [{ level: "manifest", key: name, value }];
  return levels[1].split(",").filter(Boolean).map((word) => ({
    ...target(text, word),
    key: levels[2],
    value,
  }));
}

/** Reads the field of an output. Throws `argument_invalid`. */
export function parseAnnotationField(text: string): Annotation {
  const match = /^annotation(?:-([a-z-]+))?(\[[^\]]*\])?\.([^=]+)=(.*)$/s.exec(text);
  if (!match) throw invalid(text, "the key or the value is missing");
  const [, level = "manifest", platform = "", key, value] = match;
  return { ...target(text, level + platform), key, value };
}

/** The annotations of one level, sorted by key; undefined where there are none. */
export function annotationsOf(
  all: readonly Annotation[],
  level: AnnotationLevel,
  platform?: Platform,
): Record<string, string> | undefined {
  const name = platform && formatPlatform(platform);
  const own = all.filter((one) =>
    one.level === level && (one.platform === undefined || one.platform === name)
  ).sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
  if (own.length === 0) return undefined;
  return Object.fromEntries(own.map(({ key, value }) => [key, value]));
}
