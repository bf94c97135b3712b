/** Keys that verify tokens. The source of a key decides which algorithms it may be used with. */
import type { KeyObject } from "node:crypto";
import type { CryptoKey, FlattenedJWSInput, JWSHeaderParameters } from "jose";

/** Asymmetric algorithms only: a public key must never serve as a shared secret. */
export const PUBLIC_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
] as const;

export interface KeySource extends Disposable {
  readonly algorithms: readonly string[];
  /** True: the key belongs to this installation, so a token's `scope` claim names svc's scopes. */
  readonly own: boolean;
  /** Grows whenever keys may have been withdrawn: earlier verifications must be repeated then. */
  readonly generation: number;
  /** Called on each use of a token that this source has verified; never throws. */
  touch(): void;
  /** Rejects with jose's `ERR_JWKS_NO_MATCHING_KEY` where no key matches. */
  key(
    header: JWSHeaderParameters,
    token: FlattenedJWSInput,
  ): Promise<CryptoKey | KeyObject | Uint8Array>;
}
