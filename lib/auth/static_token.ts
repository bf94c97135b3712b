/** SVC_AUTH_TOKEN: one shared secret that may do everything a policy grants it. */
import { hash, timingSafeEqual } from "node:crypto";
import { SCOPES } from "./scope.ts";
import type { Verified, Verifier } from "./verifier.ts";

/** Identity of whoever has the static token. */
const STATIC_SUBJECT = "token";

/** Compares digests, so that the time it takes reveals neither the token nor its length. */
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
