/** SVC_AUTH_TOKEN: one shared secret that may do everything a policy grants it. */
import { hash, timingSafeEqual } from "node:crypto";
import { SCOPES } from "./scope.ts";
import type { Verified, Verifier } from "./verifier.ts";

/** Identity of whoever has the static token. */
export const STATIC_SUBJECT = "token";

/** Digests are compared: the time it takes says nothing of the token, nor of its length. */
export function staticToken(secret: string): Verifier {
  const digest = hash("sha256", secret, "buffer");
  const verified: Verified = {
    identity: { subject: STATIC_SUBJECT, scopes: SCOPES, method: "token" },
  };
  return {
    verify: ({ text }) =>
      timingSafeEqual(hash("sha256", text, "buffer"), digest) ? verified : undefined,
  };
}
