/** Keys that verify tokens: where they are from decides which algorithms they are good for. */
import type { KeyObject } from "node:crypto";
import type { CryptoKey, FlattenedJWSInput, JWSHeaderParameters } from "jose";

/** Asymmetric only: a key that everybody knows must never be taken for a shared secret. */
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
  /** True: the key is this installation's, and so a token's `scope` claim is meant for it. */
  readonly own: boolean;
  /** Grows whenever keys may have gone: what was verified before has to be verified again. */
  readonly generation: number;
  /** Called on each use of a token that it once verified; never throws. */
  touch(): void;
  /** Rejects with jose's `ERR_JWKS_NO_MATCHING_KEY` where it has none. */
  key(
    header: JWSHeaderParameters,
    token: FlattenedJWSInput,
  ): Promise<CryptoKey | KeyObject | Uint8Array>;
}
