/** `K=V` arguments, as docker has them. */
import { SvcError } from "../base/errors.ts";
import type { Environment } from "./command.ts";

/**
 * Parses "K=V". "K" takes its value from the environment and is left out where the variable is unset. The last
 * value of a name counts. Throws `argument_invalid` for an empty name.
 */
export function parsePairs(
  texts: readonly string[] | undefined,
  flag: string,
  env: Environment,
): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const text of texts ?? []) {
    const equals = text.indexOf("=");
    const key = equals < 0 ? text : text.slice(0, equals);
    if (key === "") {
      throw new SvcError(
        "argument_invalid",
        `Cannot read ${flag} ${JSON.stringify(text)}: expected NAME=VALUE`,
      );
    }
    const value = equals < 0 ? env[key] : text.slice(equals + 1);
    if (value !== undefined) {
      Object.defineProperty(pairs, key, {
        value,
        enumerable: true,
        writable: true,
        configurable: true,
      });
    }
  }
  return pairs;
}
