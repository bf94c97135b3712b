/**
 * The registry's token endpoint (the distribution project's "token authentication"): what docker, podman
 * and containerd ask when they are challenged with Bearer. It is there for anonymous pulls: with Basic a
 * client that is not logged in would give up, and with no challenge at all none could push.
 */
import type { Identity } from "../api/route.ts";
import type { OwnTokens } from "./own_tokens.ts";
import { grantsScope } from "./scope.ts";

/** Milliseconds; clients ask again when it is over. */
const LIFETIME_MS = 300_000;

export interface RegistryTokenResponse {
  token: string;
  access_token: string;
  /** Seconds. */
  expires_in: number;
  issued_at: string;
}

/** As much of the registry as the identity may use, whatever the client asked for. */
export function registryToken(
  tokens: OwnTokens,
  { subject, scopes, method = "anonymous" }: Identity,
): RegistryTokenResponse {
  const granted = ["registry:push", "registry:pull"].filter((scope) => grantsScope(scopes, scope));
  const { token } = tokens.mint({ subject, scopes: granted, method }, LIFETIME_MS);
  return {
    token,
    access_token: token,
    expires_in: LIFETIME_MS / 1000,
    issued_at: new Date().toISOString(),
  };
}
