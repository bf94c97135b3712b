/** Checks that several options share. Each throws `config_invalid` naming the source of the value. */
import { isAbsolute } from "node:path";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";

export function invalid(source: string, what: string, help?: string): SvcError {
  return new SvcError("config_invalid", `Cannot read ${source}: ${what}`, { help });
}

/** One of a fixed set of words; the error suggests the nearest one. */
export function oneOf(words: readonly string[]) {
  return (value: string, source: string): string => {
    if (words.includes(value)) return value;
    throw invalid(
      source,
      `${JSON.stringify(value)} is not one of ${words.join(", ")}${suggestion(value, words)}`,
    );
  };
}

export function positive(value: number, source: string): number {
  if (value > 0) return value;
  throw invalid(source, `${value} is not positive`);
}

export function notNegative(value: number, source: string): number {
  if (value >= 0) return value;
  throw invalid(source, `${value} is negative`);
}

export function absolutePath(value: string, source: string): string {
  if (isAbsolute(value)) return value;
  throw invalid(source, `${JSON.stringify(value)} is not an absolute path`);
}

/** A URL for messages, without its password. */
const withoutSecret = (url: string) => url.replace(/^([^/]*\/\/)?.*@/, "$1…@");

/** A URL of one of these schemes. */
export function urlOf(...schemes: string[]) {
  return (value: string, source: string): string => {
    const url = URL.canParse(value) ? new URL(value) : undefined;
    if (url && schemes.includes(url.protocol.slice(0, -1)) && url.hostname !== "") return value;
    throw invalid(
      source,
      `${JSON.stringify(withoutSecret(value))} is not a URL; expected ${
        schemes.map((scheme) => `${scheme}://host[:port]`).join(" or ")
      }`,
    );
  };
}

/** `host[:port]`, with `http://` or `https://` before it where the option allows a scheme. */
export function registryHost(value: string, source: string): string {
  if (/^(https?:\/\/)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$/.test(value)) return value;
  throw invalid(source, `${JSON.stringify(value)} is not a registry; expected host[:port]`);
}

/** Host-path prefixes, separated by commas or colons; all absolute. */
export function pathPrefixes(value: string[], source: string): string[] {
  return value.flatMap((item) => item.split(":")).filter((item) => item !== "")
    .map((item) => absolutePath(item, source));
}

/** `container-path=host-path` pairs. */
export function pathPairs(value: string[], source: string): string[] {
  for (const pair of value) {
    const [from, to, ...more] = pair.split("=");
    if (more.length > 0 || !isAbsolute(from) || to === undefined || !isAbsolute(to)) {
      throw invalid(
        source,
        `${JSON.stringify(pair)} is not a pair; expected /container/path=/host/path`,
      );
    }
  }
  return value;
}

/** Text that an `Authorization` header can carry. */
export function visible(value: string, source: string): string {
  if (/^[!-~]{1,8192}$/.test(value)) return value;
  throw invalid(
    source,
    "a token has visible ASCII characters only, without spaces, and at most 8192 of them",
    "generate one, for example with `openssl rand -hex 32`",
  );
}
