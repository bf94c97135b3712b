/** Who asks: what verifiers are given and what they answer. Routes decide what may be done. */
import type { Identity } from "../api/route.ts";

/** A secret that a request carries. */
export interface PresentedToken {
  readonly text: string;
}

export interface Verified {
  identity: Identity;
  /** Milliseconds since 1970 from which the token is good no more; absent: it has no end. */
  expires?: number;
  /** False once what it was verified with has changed: it must be verified again. Absent: always true. */
  holds?: () => boolean;
}

export interface Verifier {
  /**
   * Undefined: not one of this verifier's tokens. Throws `unauthorized` for one that is, and is not good;
   * the message never repeats the token. Throws `upstream_failed` where it could not be told.
   */
  verify(token: PresentedToken): Promise<Verified | undefined> | Verified | undefined;
}
