/** A JWKS document (RFC 7517): only its public signature keys are used. */
import type { createLocalJWKSet, JWK } from "jose";
import { PUBLIC_ALGORITHMS } from "./key_source.ts";

export type LookUp = ReturnType<typeof createLocalJWKSet>;

/** Keys in a set at most; real issuers have two or three. */
const MAX_KEYS = 1000;
export const MAX_KEY_SET_BYTES = 1024 * 1024;

const PUBLIC_TYPES = new Set(["RSA", "EC", "OKP"]);

/** Throws an `Error` with the reason where the text is not a key set. */
export async function parseKeySet(text: string): Promise<LookUp> {
  const { createLocalJWKSet } = await import("jose");
  let keys: unknown;
  try {
    keys = (JSON.parse(text) as { keys?: unknown } | null)?.keys;
  } catch {
    throw new Error("it is not JSON");
  }
  if (!Array.isArray(keys)) throw new Error("it has no list of keys");
  if (keys.length > MAX_KEYS) throw new Error(`it has more than ${MAX_KEYS} keys`);
  const usable = keys.filter((key: JWK | null): key is JWK =>
    typeof key === "object" && PUBLIC_TYPES.has(key?.kty ?? "") &&
    (key?.use === undefined || key.use === "sig") &&
    (key?.alg === undefined || PUBLIC_ALGORITHMS.some((name) => name === key.alg))
  ).map(withoutPrivateParts);
  if (usable.length === 0) throw new Error("it has no public key for signatures");
  return createLocalJWKSet({ keys: usable });
}

/** An issuer may publish a private key by mistake: only its public half is kept. */
function withoutPrivateParts(key: JWK): JWK {
  const { d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, oth: _oth, ...rest } = key;
  return rest as JWK;
}
