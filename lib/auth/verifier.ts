/** Authentication: what verifiers get and return. Routes decide what the caller may do. */
import type { Identity } from "../api/route.ts";

/** A secret that a request carries. */
export interface PresentedToken {
  readonly text: string;
}

export interface Verified {
  identity: Identity;
  /** Milliseconds since 1970 at which the token expires; absent: it does not expire. */
  expires?: number;
  /**
   * False once the keys behind the verification have changed: the token must be verified again. Absent: always
   * true.
   */
  holds?: () => boolean;
}

export interface Verifier {
  /**
   * Undefined: the token is not of this verifier's kind. Throws `unauthorized` for a bad token of its kind; the
   * message never repeats the token. Throws `upstream_failed` where the token could not be checked.
   */
  verify(token: PresentedToken): Promise<Verified | undefined> | Verified | undefined;
}
