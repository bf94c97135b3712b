/** Query parameters of the management API. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";

const TRUE = new Set(["", "1", "true", "yes", "on"]);
const FALSE = new Set(["0", "false", "no", "off"]);

/** Throws `argument_invalid` for a parameter that is not in `known`: a typo must not silently mean the default. */
export function requireKnown({ searchParams }: URL, known: readonly string[]): void {
  for (const name of searchParams.keys()) {
    if (known.includes(name)) continue;
    throw new SvcError(
      "argument_invalid",
      `Cannot read the query: unknown parameter ${JSON.stringify(name)}${suggestion(name, known)}`,
    );
  }
}

export class Query {
  readonly #params: URLSearchParams;

  /** Accepts the parameters of the route's row: see {@linkcode requireKnown}. */
  constructor(url: URL) {
    this.#params = url.searchParams;
  }

  text(name: string): string | undefined {
    return this.#params.get(name) ?? undefined;
  }

  all(name: string): string[] {
    return this.#params.getAll(name);
  }

  bool(name: string): boolean | undefined {
    const text = this.text(name)?.toLowerCase();
    if (text === undefined) return undefined;
    if (TRUE.has(text)) return true;
    if (FALSE.has(text)) return false;
    throw invalid(name, text, "true or false");
  }

  /** One of some words. */
  choice<const T extends string>(name: string, words: readonly T[]): T | undefined {
    const text = this.text(name);
    const found = words.find((word) => word === text);
    if (text === undefined || found !== undefined) return found;
    throw invalid(name, text, words.join(" or "));
  }

  /** A whole number of at least 0. */
  count(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    if (/^\d{1,15}$/.test(text)) return Number(text);
    throw invalid(name, text, "a whole number");
  }

  /** RFC 3339, or seconds since 1970 with a fraction. */
  time(name: string): Date | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text);
    if (Number.isFinite(ms) && (/^\d/.test(text))) return new Date(ms);
    throw invalid(name, text, "a time, such as 2026-01-31T12:00:00Z");
  }

  /** `K=V` parameters as a record; the last value of a key wins. */
  pairs(name: string): Record<string, string> {
    const record: Record<string, string> = {};
    for (const text of this.all(name)) {
      const equals = text.indexOf("=");
      if (equals < 1) throw invalid(name, text, "KEY=VALUE");
      record[text.slice(0, equals)] = text.slice(equals + 1);
    }
    return record;
  }
}

function invalid(name: string, text: string, expected: string): SvcError {
  return new SvcError(
    "argument_invalid",
    `Cannot read query parameter ${name}: expected ${expected}, got ${JSON.stringify(text)}`,
  );
}
