/** One line of comma-separated `key=value` fields, as buildx options are written; quotes keep commas. */
import { SvcError } from "./errors.ts";

const QUOTED = /^"((?:[^"]|"")*)"(?:,|$)/;

function* words(text: string, what: string): Generator<string> {
  for (let rest = text, more = true; more;) {
    const quoted = QUOTED.exec(rest);
    if (!quoted && rest.startsWith('"')) {
      throw new SvcError(
        "argument_invalid",
        `Cannot read ${what} ${JSON.stringify(text)}: a quote is not closed`,
      );
    }
    const comma = rest.indexOf(",");
    const length = quoted ? quoted[0].length : comma < 0 ? rest.length : comma + 1;
    more = rest.slice(0, length).endsWith(",") && (quoted !== null || comma >= 0);
    yield quoted ? quoted[1].replaceAll('""', '"') : more ? rest.slice(0, length - 1) : rest;
    rest = rest.slice(length);
  }
}

/**
 * The fields in order; a field without "=" has no value. `what` names the option in errors. Throws
 * `argument_invalid`.
 */
export function parseFields(text: string, what: string): [key: string, value?: string][] {
  return [...words(text, what)].map((word): [string, string?] => {
    const equals = word.indexOf("=");
    const key = (equals < 0 ? word : word.slice(0, equals)).trim();
    if (key === "") {
      throw new SvcError(
        "argument_invalid",
        `Cannot read ${what} ${JSON.stringify(text)}: expected KEY=VALUE, separated by commas`,
      );
    }
    return equals < 0 ? [key] : [key, word.slice(equals + 1)];
  });
}

/** The inverse of {@linkcode parseFields}. */
export function formatFields(fields: readonly [key: string, value?: string][]): string {
  return fields.map(([key, value]) => {
    const word = value === undefined ? key : `${key}=${value}`;
    return /[",]/.test(word) ? `"${word.replaceAll('"', '""')}"` : word;
  }).join(",");
}
