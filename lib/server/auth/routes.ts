/** `/.svc/v1/auth/…`: the rows that a server has because of what is configured. */
import type { Authenticator } from "../../auth/authenticator.ts";
import { ANONYMOUS_PULLER } from "../../auth/access.ts";
import type { OwnTokens } from "../../auth/own_tokens.ts";
import { registryToken } from "../../auth/registry_tokens.ts";
import { json } from "../json.ts";
import type { Route } from "../route.ts";
import { API_PREFIX } from "../routes/health.ts";

export const REGISTRY_TOKENS = `${API_PREFIX}/auth/registry`;

const NO_STORE = { "cache-control": "no-store" };

export interface RegistryTokenDeps {
  authenticator: Authenticator;
  tokens: OwnTokens;
}

export function registryTokenRoutes({ authenticator, tokens }: RegistryTokenDeps): Route[] {
  return [{
    method: "GET",
    path: REGISTRY_TOKENS,
    open: true,
    help:
      "Token for the registry, as docker asks for one when pulls need no credential: with `Basic` or " +
      "`Bearer` for what that credential may do, without for pulls.",
    handler: async ({ request, connection }) => {
      const identity = await authenticator.identify(request, connection, true);
      const answer = registryToken(tokens, identity ?? ANONYMOUS_PULLER);
      return json(answer, { headers: NO_STORE });
    },
  }];
}
