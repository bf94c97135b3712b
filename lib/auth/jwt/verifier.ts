/** JSON Web Tokens (RFC 7519): a signature by a configured key, the right claims, and scopes from them. */
import type { JWTPayload, JWTVerifyOptions } from "jose";
import { SvcError } from "../../base/errors.ts";
import { refusedCredential } from "../credential.ts";
import { SCOPES } from "../scope.ts";
import type { PresentedToken, Verified, Verifier } from "../verifier.ts";
import type { KeySource } from "./key_source.ts";
import type { ScopeMap } from "./scope_map.ts";

/** Seconds by which clocks may differ. */
const LEEWAY_S = 60;

/** Milliseconds until a token without `exp` is verified again. */
const NO_END_MS = 300_000;

export interface JwtOptions {
  sources: readonly KeySource[];
  issuer?: string;
  audience?: string;
  scopeMap?: ScopeMap;
  /** Scopes of tokens that no rule matches. */
  defaultScopes?: readonly string[];
  /** Tokens by keys of this installation need no `exp`. */
  allowNoExpiry?: boolean;
  now?: () => number;
}

/** Three parts, as a signed token has; encrypted ones have five. */
const SHAPE = /^[\w-]+\.[\w-]+\.[\w-]+$/;

const CLAIMS: Record<string, string> = {
  iss: "its issuer (iss) is not the expected one",
  aud: "its audience (aud) is not the expected one",
  nbf: "it is not good yet (nbf)",
  exp: "it has no valid end (exp)",
};

function reason(error: unknown): string {
  const { code, claim } = error as { code?: string; claim?: string };
  switch (code) {
    case "ERR_JWT_EXPIRED":
      return "it has expired";
    case "ERR_JWT_CLAIM_VALIDATION_FAILED":
      return CLAIMS[claim ?? ""] ?? "its claims are not valid";
    case "ERR_JWKS_NO_MATCHING_KEY":
      return "its key is not known";
    case "ERR_JWS_SIGNATURE_VERIFICATION_FAILED":
      return "its signature does not verify";
    default:
      return "it is malformed";
  }
}

export class JwtVerifier implements Verifier {
  readonly #options: JwtOptions;

  constructor(options: JwtOptions) {
    this.#options = options;
  }

  async verify({ text }: PresentedToken): Promise<Verified | undefined> {
    if (!SHAPE.test(text)) return undefined;
    const { decodeProtectedHeader } = await import("jose");
    let algorithm: string | undefined;
    try {
      algorithm = decodeProtectedHeader(text).alg;
    } catch {
      return undefined;
    }
    // The configuration decides what a key is for, never the token: the algorithm "none" is never accepted, and
    // a public key never serves as a shared secret.
    const sources = this.#options.sources.filter(({ algorithms }) =>
      algorithm !== undefined && algorithms.includes(algorithm)
    );
    if (sources.length === 0) throw refusedCredential("its algorithm is not accepted");
    let failure: unknown;
    for (const source of sources) {
      try {
        return await this.#verifyWith(source, text, algorithm!);
      } catch (error) {
        if (failure === undefined || !isKeyTrouble(error)) failure = error;
      }
    }
    if (failure instanceof SvcError) throw failure;
    throw refusedCredential(reason(failure), failure);
  }

  async #verifyWith(source: KeySource, text: string, algorithm: string): Promise<Verified> {
    const { issuer, audience, now = Date.now } = this.#options;
    const { generation } = source;
    const payload = await verifiedPayload(text, source, {
      algorithms: [algorithm],
      issuer,
      audience,
      clockTolerance: LEEWAY_S,
      currentDate: new Date(now()),
      // Another installation's issuer may sign tokens without an end: they are never accepted.
      requiredClaims: source.own && this.#options.allowNoExpiry ? [] : ["exp"],
    });
    return {
      identity: { ...this.#identity(payload, source), method: "jwt" },
      expires: payload.exp === undefined ? now() + NO_END_MS : (payload.exp + LEEWAY_S) * 1000,
      holds: () => {
        source.touch();
        return source.generation === generation;
      },
    };
  }

  #identity(
    payload: JWTPayload,
    source: KeySource,
  ): { subject: string; scopes: readonly string[] } {
    const { scopeMap, defaultScopes = [] } = this.#options;
    const subject = typeof payload.sub === "string" ? payload.sub : "";
    const claimed = source.own ? claimedScopes(payload) : undefined;
    if (claimed) return { subject, scopes: claimed };
    const mapped = scopeMap?.map(payload);
    if (!mapped) return { subject, scopes: defaultScopes };
    return { subject: mapped.subject ?? subject, scopes: mapped.scopes };
  }
}

/** Keys that are tried for a token whose issuer does not name its keys. */
const MOST_TRIED = 8;

async function verifiedPayload(
  text: string,
  source: KeySource,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  const { errors, jwtVerify } = await import("jose");
  try {
    return (await jwtVerify(text, (header, token) => source.key(header, token), options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    // A rotating set holds the old and the new key. Without names either may have signed.
    let failure: unknown = error;
    let tried = 0;
    for await (const key of error) {
      if (tried++ === MOST_TRIED) break;
      try {
        return (await jwtVerify(text, key, options)).payload;
      } catch (reason) {
        failure = reason;
        if (!isKeyTrouble(reason)) break;
      }
    }
    throw failure;
  }
}

/** True for an error after which another source may still have the key. */
function isKeyTrouble(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "ERR_JWKS_NO_MATCHING_KEY" || code === "ERR_JWS_SIGNATURE_VERIFICATION_FAILED";
}

/** The claim may hold scopes of other services besides svc's. */
function claimedScopes({ scope }: JWTPayload): string[] | undefined {
  const words = typeof scope === "string" ? scope.split(" ") : scope;
  if (!Array.isArray(words)) return undefined;
  return words.filter((word) => SCOPES.some((known) => known === word));
}
