/**
 * Token exchange (RFC 8693): a credential of another issuer, such as a CI job's OIDC token, is exchanged for a
 * short-lived token of this server, which never grants more than the credential itself.
 */
import {
  TOKEN_EXCHANGE,
  type TokenExchangeError,
  type TokenExchangeResponse,
} from "../api/auth.ts";
import type { Identity } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import type { Authenticator } from "./authenticator.ts";
import { presentedToken } from "./credential.ts";
import { OWN_TOKEN_PREFIX, type OwnTokens } from "./own_tokens.ts";
import type { Policy } from "./policy.ts";
import { grantsScope, parseScopes, type Scope } from "./scope.ts";

/** Milliseconds: longer than a CI job's own token, which is valid for minutes. */
const LIFETIME_MS = 3_600_000;

export interface ExchangeOptions {
  authenticator: Authenticator;
  tokens: OwnTokens;
  policy?: Policy;
}

/** A refusal in OAuth's form (RFC 6749 5.2). */
export class ExchangeRefused extends Error {
  /** `identity`: the token's identity, where it is known. */
  constructor(
    readonly error: TokenExchangeError["error"],
    message: string,
    readonly identity?: Identity,
  ) {
    super(message);
  }
}

/** Token types that CI services and identity providers issue. */
const KNOWN_TYPES: readonly string[] = [
  TOKEN_EXCHANGE.accessToken,
  TOKEN_EXCHANGE.idToken,
  TOKEN_EXCHANGE.jwt,
];

function readForm(form: URLSearchParams): { token: string; scope?: string } {
  const one = (name: string): string | undefined => {
    const values = form.getAll(name).filter((value) => value !== "");
    if (values.length > 1) throw new ExchangeRefused("invalid_request", `${name} is there twice`);
    return values[0];
  };
  const grant = one("grant_type");
  if (grant !== TOKEN_EXCHANGE.grantType) {
    throw new ExchangeRefused(
      "unsupported_grant_type",
      `grant_type has to be ${TOKEN_EXCHANGE.grantType}`,
    );
  }
  if (one("actor_token") !== undefined) {
    throw new ExchangeRefused("invalid_request", "acting for somebody else is not supported");
  }
  const wanted = one("requested_token_type");
  if (wanted !== undefined && wanted !== TOKEN_EXCHANGE.accessToken) {
    throw new ExchangeRefused("invalid_request", "only access tokens are issued");
  }
  if (!KNOWN_TYPES.includes(one("subject_token_type") ?? "")) {
    throw new ExchangeRefused(
      "invalid_request",
      `subject_token_type is none of ${KNOWN_TYPES.join(", ")}`,
    );
  }
  const token = one("subject_token");
  if (token === undefined) throw new ExchangeRefused("invalid_request", "subject_token is missing");
  if (token.startsWith(OWN_TOKEN_PREFIX)) {
    throw new ExchangeRefused(
      "invalid_request",
      "a token of this server cannot be exchanged again",
    );
  }
  return { token, scope: one("scope") };
}

/** The requested scopes, or all of the identity's. A scope that it does not have is refused, not left out. */
function granted(identity: Identity, scope: string | undefined, policy?: Policy): string[] {
  if (scope === undefined) {
    if (identity.scopes.length > 0) return [...identity.scopes];
    throw new ExchangeRefused("invalid_scope", "no rule grants this credential a scope", identity);
  }
  let scopes: Scope[];
  try {
    scopes = parseScopes(scope, "scope");
  } catch (error) {
    throw new ExchangeRefused("invalid_scope", (error as Error).message, identity);
  }
  for (const wanted of scopes) {
    const [, action] = /^registry:(push|pull)$/.exec(wanted) ?? [];
    const allowed = !action || !policy || policy.allows(identity, action as "push" | "pull");
    if (grantsScope(identity.scopes, wanted) && allowed) continue;
    throw new ExchangeRefused("invalid_scope", `the scope ${wanted} is not granted`, identity);
  }
  return [...new Set(scopes)];
}

/** Throws `ExchangeRefused`, or `unavailable` where the token could not be checked. */
export async function exchangeToken(
  form: URLSearchParams,
  { authenticator, tokens, policy }: ExchangeOptions,
): Promise<{ identity: Identity; response: TokenExchangeResponse }> {
  const { token, scope } = readForm(form);
  let identity: Identity;
  try {
    ({ identity } = await authenticator.verify(presentedToken(token)));
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "unauthorized") throw error;
    const why = error.message.replace(/^[^:]*: /, "");
    throw new ExchangeRefused("invalid_request", `the subject token is not accepted: ${why}`);
  }
  const scopes = granted(identity, scope, policy);
  const { subject, method = "token" } = identity;
  const minted = tokens.mint({ subject, scopes, method }, LIFETIME_MS);
  return {
    identity,
    response: {
      access_token: minted.token,
      issued_token_type: TOKEN_EXCHANGE.accessToken,
      token_type: "Bearer",
      expires_in: LIFETIME_MS / 1000,
      scope: scopes.join(" "),
    },
  };
}
