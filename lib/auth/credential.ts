/** The credential in a request's `Authorization` field. */
import { Buffer } from "node:buffer";
import { SvcError } from "../base/errors.ts";
import type { PresentedToken } from "./verifier.ts";

/** Longer tokens are refused without a check. Real tokens have a few hundred to a few thousand characters. */
export const MAX_TOKEN = 16 * 1024;

/** Visible ASCII: the characters of a Bearer credential (RFC 6750 2.1) and more, for static tokens. */
const TOKEN = /^[!-~]+$/;

/** Throws `unauthorized` for a text that cannot be a token. */
export function presentedToken(text: string): PresentedToken {
  if (text.length > MAX_TOKEN || !TOKEN.test(text)) throw refusedCredential("it is malformed");
  return { text };
}

export function refusedCredential(why: string, cause?: unknown): SvcError {
  return new SvcError("unauthorized", `Cannot accept the credential: ${why}`, { cause });
}

/**
 * The token of an `Authorization` field: `Bearer TOKEN` or, where `basic` is allowed, `Basic` with any user and
 * the token as password (`docker login`). Throws `unauthorized` for any other field. `presentedToken` checks
 * the token's form.
 */
export function tokenOf(header: string, basic: boolean): string {
  const space = header.indexOf(" ");
  const scheme = header.slice(0, space).toLowerCase();
  const value = header.slice(space + 1).trim();
  if (scheme === "bearer") return value;
  if (scheme === "basic" && basic) {
    if (value.length > 2 * MAX_TOKEN) throw refusedCredential("it is too long");
    const pair = Buffer.from(value, "base64").toString("utf8");
    const colon = pair.indexOf(":");
    if (colon < 0) throw refusedCredential("it is malformed");
    return pair.slice(colon + 1);
  }
  throw refusedCredential(
    basic ? "expected the scheme Bearer or Basic" : "expected the scheme Bearer",
  );
}
