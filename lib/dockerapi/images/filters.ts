/** The filters of `docker images` and `docker image prune`. */
import { invalid } from "../errors.ts";
import { filtered, type Filters, hasLabel, isTrue, timeOf } from "../filters.ts";
import { shownName, shownRepository } from "./names.ts";
import { createdOf, type StoredImage } from "./store.ts";

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
    throw invalid(`invalid filter 'reference=${pattern}'`);
  }
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
  const globs = (filters.get("reference") ?? []).map(globOf);
  // Of an image with several names those are shown that were asked for.
  const named = ({ names }: StoredImage) =>
    names.filter((name) => {
      const texts = [shownName({ ...name, digest: undefined }), shownRepository(name.repository)];
      return globs.some((glob) => texts.some((text) => glob.test(text)));
    });
  const shown = globs.length === 0 ? images : images
    .map((image) => ({ ...image, names: named(image) }))
    .filter(({ names }) => names.length > 0);
  const labelsOf = ({ config }: StoredImage) => config.config?.Labels;
  return filtered(shown, filters, {
    reference: () => true,
    dangling: ({ names }, text) => isTrue(text) === (names.length === 0),
    label: (image, text) => hasLabel(labelsOf(image), text),
    "label!": (image, text) => !hasLabel(labelsOf(image), text),
    until: ({ config }, text) => createdOf(config) * 1000 < timeOf(text),
    before: ({ config }, name) => createdOf(config) < created(name),
    since: ({ config }, name) => createdOf(config) > created(name),
  });
}
