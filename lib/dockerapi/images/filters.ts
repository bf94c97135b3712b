/** The filters of `docker images` and `docker image prune`. */
import { SvcError } from "../../base/errors.ts";
import { shownName, shownRepository } from "./names.ts";
import { createdOf, type StoredImage } from "./store.ts";

export type Filters = ReadonlyMap<string, readonly string[]>;

const isTrue = (text: string) => ["1", "true", "t"].includes(text.toLowerCase());

/** Throws `argument_invalid` in docker's words for a filter that is not among `known`. */
export function checkFilters(filters: Filters, known: readonly string[]): void {
  for (const name of filters.keys()) {
    if (!known.includes(name)) throw new SvcError("argument_invalid", `invalid filter '${name}'`);
  }
}

/** Go's path.Match: an asterisk stops at a slash. */
function globOf(pattern: string): RegExp {
  const source = pattern.replaceAll(
    /\[\^?[^\]]*\]|[*?]|[^*?[]+|\[/g,
    (part) =>
      part === "*"
        ? "[^/]*"
        : part === "?"
        ? "[^/]"
        : part.length > 2 && part.startsWith("[")
        ? part
        : RegExp.escape(part),
  );
  try {
    return new RegExp(`^${source}$`);
  } catch {
    throw new SvcError("argument_invalid", `invalid filter 'reference=${pattern}'`);
  }
}

/** Unix seconds of "2026-01-02", of a Unix time, or of a duration ago such as "24h". */
function timeOf(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  const parts = [...text.matchAll(/(\d+)(h|m|s)/g)];
  if (parts.length > 0 && parts.map(([whole]) => whole).join("") === text) {
    const units: Record<string, number> = { h: 3600, m: 60, s: 1 };
    const ago = parts.reduce((sum, [, count, unit]) => sum + Number(count) * units[unit], 0);
    return Date.now() / 1000 - ago;
  }
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new SvcError("argument_invalid", `invalid filter 'until=${text}'`);
  return time / 1000;
}

export function labelMatches(labels: Readonly<Record<string, string>>, wanted: string): boolean {
  const at = wanted.indexOf("=");
  const key = at < 0 ? wanted : wanted.slice(0, at);
  return Object.hasOwn(labels, key) && (at < 0 || labels[key] === wanted.slice(at + 1));
}

/**
 * The images that pass. `created`: the time of an image that `before` and `since` name. Throws
 * `argument_invalid`.
 */
export function filterImages(
  images: readonly StoredImage[],
  filters: Filters,
  created: (name: string) => number,
): StoredImage[] {
  const all = (name: string) => filters.get(name) ?? [];
  const globs = all("reference").map(globOf);
  const until = all("until").map(timeOf);
  const before = [...all("before").map(created), ...until];
  const since = all("since").map(created);
  const shown = images.map((image): StoredImage => ({
    ...image,
    // Of an image with several names those are shown that were asked for.
    names: globs.length === 0 ? image.names : image.names.filter((name) => {
      const texts = [shownName({ ...name, digest: undefined }), shownRepository(name.repository)];
      return globs.some((glob) => texts.some((text) => glob.test(text)));
    }),
  }));
  return shown.filter((image) => {
    const labels = image.config.config?.Labels ?? {};
    const time = createdOf(image.config);
    return all("dangling").every((text) => isTrue(text) === (image.names.length === 0)) &&
      all("label").every((wanted) => labelMatches(labels, wanted)) &&
      all("label!").every((wanted) => !labelMatches(labels, wanted)) &&
      before.every((limit) => time < limit) && since.every((limit) => time > limit) &&
      (globs.length === 0 || image.names.length > 0);
  });
}
