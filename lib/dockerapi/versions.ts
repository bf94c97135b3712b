/** Versions of the Docker Engine API, in docker's own words where it is none of those that are spoken. */
import { invalid } from "./errors.ts";

export const MIN_VERSION = "1.24";
export const MAX_VERSION = "1.51";

const numberOf = (version: string) => Number(version.slice(version.indexOf(".") + 1));

/** True where `version` is at least `least`. */
export const isAtLeast = (version: string, least: string) => numberOf(version) >= numberOf(least);

/** Throws `argument_invalid`. */
export function checkVersion(version: string): void {
  const [major] = version.split(".");
  if (major !== "1" || numberOf(version) > numberOf(MAX_VERSION)) {
    throw invalid(
      `client version ${version} is too new. Maximum supported API version is ${MAX_VERSION}`,
    );
  }
  if (numberOf(version) < numberOf(MIN_VERSION)) {
    throw invalid(
      `client version ${version} is too old. Minimum supported API version is ${MIN_VERSION}, ` +
        "please upgrade your client to a newer version",
    );
  }
}
