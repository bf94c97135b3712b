/**
 * The registry's token endpoint (the distribution project's "token authentication"), which docker, podman and
 * containerd ask after a Bearer challenge. It exists for anonymous pulls. At a Basic challenge, a client that
 * is not logged in would give up; without any challenge, no client could push.
 */
import type { RegistryToken } from "../api/endpoints.ts";
import type { Identity } from "../api/route.ts";
import { OWN_TOKEN_PREFIX, type OwnTokens } from "./own_tokens.ts";
import { grantsScope } from "./scope.ts";
import type { PresentedToken } from "./verifier.ts";

/** Milliseconds; clients ask again when it is over. */
const LIFETIME_MS = 300_000;

export interface RegistryTokenFor {
  identity: Identity;
  /** The credential, where it is a token. */
  token?: PresentedToken;
  /** Milliseconds since 1970 at which it ends; absent: it has no end. */
  expires?: number;
}

/**
 * A token with the registry scopes of the credential, whatever the client asked for, valid no longer than the
 * credential. One of this server's own tokens is returned as it is: it is checked at each use.
 */
export function registryToken(
  tokens: OwnTokens,
  { identity: { subject, scopes, method = "anonymous" }, token, expires = Infinity }:
    RegistryTokenFor,
): RegistryToken {
  const lifetime = Math.min(LIFETIME_MS, expires - Date.now());
  const answer = (text: string): RegistryToken => ({
    token: text,
    access_token: text,
    expires_in: Math.floor(lifetime / 1000),
    issued_at: new Date().toISOString(),
  });
  if (token?.text.startsWith(OWN_TOKEN_PREFIX)) return answer(token.text);
  const granted = ["registry:push", "registry:pull"].filter((scope) => grantsScope(scopes, scope));
  return answer(tokens.mint({ subject, scopes: granted, method }, lifetime).token);
}
