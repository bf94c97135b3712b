/** Parses a file's URL and the checksum beside it. */
import { SvcError } from "../../base/errors.ts";

export const isHttpUrl = (source: string): boolean => /^https?:\/\//i.test(source);

/** The name that ADD gives the file. */
export function fileNameOf(url: string): string {
  let path = new URL(url).pathname;
  try {
    path = decodeURIComponent(path);
  } catch {
    // The percent-encoding is not UTF-8: the name stays as written.
  }
  const name = path.slice(path.lastIndexOf("/") + 1);
  return /^\.{0,2}$|\0/.test(name) ? "index" : name;
}

/** Splits a checksum. Throws `dockerfile_invalid`. */
export function parseChecksum(checksum: string, url: string): { algorithm: string; hex: string } {
  const [, algorithm, hex] = /^(sha256|sha384|sha512):([0-9a-f]+)$/.exec(checksum) ?? [];
  if (hex === undefined) {
    throw new SvcError(
      "dockerfile_invalid",
      `Cannot add ${url}: --checksum=${checksum} is not of the form sha256:HEX`,
    );
  }
  return { algorithm, hex };
}
