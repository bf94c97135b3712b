/** OAuth 2.0 token exchange (RFC 8693) with svc's own endpoint (SPEC.md, "Authentication" 5). */
import {
  TOKEN_EXCHANGE,
  type TokenExchangeError,
  type TokenExchangeForm,
  type TokenExchangeResponse,
} from "../../api/auth.ts";
import { SvcError } from "../../base/errors.ts";
import { API_PREFIX, endpointPath } from "../../api/endpoints.ts";

export interface ExchangeOptions {
  /** Shown in errors. */
  server: string;
  base: string;
  http?: Deno.HttpClient;
  subject: string;
  scope?: string;
  signal?: AbortSignal;
}

const JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

/** Statuses of servers that have no such endpoint, or nothing behind it. */
const ABSENT = new Set([404, 405, 501]);

/**
 * Exchanges the subject token for a token of the server. undefined where the server has no exchange: the caller
 * then sends the subject token itself. Throws `denied` for a scope that is not granted, `unauthorized` for an
 * invalid subject token.
 */
export async function exchangeToken(
  options: ExchangeOptions,
): Promise<TokenExchangeResponse | undefined> {
  const { server, base, http, subject, scope, signal } = options;
  const form: TokenExchangeForm = {
    grant_type: TOKEN_EXCHANGE.grantType,
    subject_token: subject,
    subject_token_type: JWT.test(subject) ? TOKEN_EXCHANGE.jwt : TOKEN_EXCHANGE.accessToken,
    ...(scope && { scope }),
  };
  let response: Response;
  try {
    response = await fetch(`${base}${API_PREFIX}${endpointPath("POST /auth/token")}`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
      body: new URLSearchParams({ ...form }),
      redirect: "error",
      client: http,
      signal,
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new SvcError("server_unreachable", `Cannot reach ${server}: the connection failed`, {
      cause,
    });
  }
  const document = await response.json().catch(() => undefined) as
    | Partial<TokenExchangeResponse & TokenExchangeError>
    | undefined;
  if (response.ok) {
    if (typeof document?.access_token === "string" && typeof document.expires_in === "number") {
      return document as TokenExchangeResponse;
    }
    throw new SvcError(
      "upstream_failed",
      `Cannot exchange the token at ${server}: its answer has no token`,
      {
        help: "check the URL of the server",
      },
    );
  }
  const error: string | undefined = document?.error;
  if (ABSENT.has(response.status) || error === "unsupported_grant_type") return undefined;
  const why = document?.error_description ?? `it answered ${response.status}`;
  if (error === "invalid_scope") {
    throw new SvcError("denied", `Cannot exchange the token at ${server}: ${why}`, {
      help: "ask for a scope that the server grants, in token-exchange.scope",
    });
  }
  const refused = error === "invalid_grant" || error === "invalid_request" ||
    response.status === 401;
  throw new SvcError(
    refused ? "unauthorized" : "upstream_failed",
    `Cannot exchange the token at ${server}: ${why}`,
  );
}
