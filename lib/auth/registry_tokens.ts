/**
 * The registry's token endpoint (the distribution project's "token authentication"): what docker, podman
 * and containerd ask when they are challenged with Bearer. It is there for anonymous pulls: with Basic a
 * client that is not logged in would give up, and with no challenge at all none could push.
 */
import type { Identity } from "../api/route.ts";
import { OWN_TOKEN_PREFIX, type OwnTokens } from "./own_tokens.ts";
import { grantsScope } from "./scope.ts";
import type { PresentedToken } from "./verifier.ts";

/** Milliseconds; clients ask again when it is over. */
const LIFETIME_MS = 300_000;

export interface RegistryTokenResponse {
  token: string;
  access_token: string;
  /** Seconds. */
  expires_in: number;
  issued_at: string;
}

export interface RegistryTokenFor {
  identity: Identity;
  /** The credential, where it is a token. */
  token?: PresentedToken;
  /** Milliseconds since 1970 at which it ends; absent: it has no end. */
  expires?: number;
}

/**
 * As much of the registry as the credential may use, whatever the client asked for, and no longer than it.
 * A token of this server's own is its own answer: what it came from is checked with each use of it.
 */
export function registryToken(
  tokens: OwnTokens,
  { identity: { subject, scopes, method = "anonymous" }, token, expires = Infinity }:
    RegistryTokenFor,
): RegistryTokenResponse {
  const lifetime = Math.min(LIFETIME_MS, expires - Date.now());
  const answer = (text: string): RegistryTokenResponse => ({
    token: text,
    access_token: text,
    expires_in: Math.floor(lifetime / 1000),
    issued_at: new Date().toISOString(),
  });
  if (token?.text.startsWith(OWN_TOKEN_PREFIX)) return answer(token.text);
  const granted = ["registry:push", "registry:pull"].filter((scope) => grantsScope(scopes, scope));
  return answer(tokens.mint({ subject, scopes: granted, method }, lifetime).token);
}
