/**
 * Authentication at another registry: Basic, or the token flow of the distribution project ("Token
 * Authentication Specification"), as the server's challenge asks.
 */
import { SvcError } from "../base/errors.ts";
import { readObject } from "./bounded.ts";

/**
 * Credentials of an account: a name and password, a bearer token used as it is, or an identity (refresh)
 * token that a token server exchanges.
 */
export type Credentials =
  | { username: string; password: string }
  | { token: string }
  | { identityToken: string };

export interface Challenge {
  /** Lower case: "bearer", "basic". */
  scheme: string;
  parameters: Record<string, string>;
}

/** The challenges of a `WWW-Authenticate` header, which may hold several (RFC 9110, 11.6.1). */
export function parseChallenges(header: string): Challenge[] {
  const found: Challenge[] = [];
  const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
  const pattern = new RegExp(
    `(${token})\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|(${token}))|(${token})(?=\\s|,|$)`,
    "g",
  );
  for (const match of header.matchAll(pattern)) {
    const [, name, quoted, bare, scheme] = match;
    if (scheme !== undefined) found.push({ scheme: scheme.toLowerCase(), parameters: {} });
    else {
      const last = found.at(-1);
      if (last) {
        last.parameters[name.toLowerCase()] = quoted?.replace(/\\(.)/g, "$1") ?? bare;
      }
    }
  }
  return found;
}

const basic = (username: string, password: string) => {
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
};

export interface AuthorizerOptions {
  /** For messages. */
  host: string;
  /** The registry is used without TLS, so its token server may be without TLS too. */
  plainHTTP: boolean;
  credentials: () => Promise<Credentials | undefined>;
  /** Makes requests to the token server, with time limits and retries but without authorization. */
  fetch: (url: URL, init: RequestInit, signal?: AbortSignal) => Promise<Response>;
  /** A clock that nobody sets; default: this process's own. */
  now?: () => number;
}

/** Tokens are renewed this long before they expire, in milliseconds. */
const EARLY = 10_000;
/** Lifetime of a token whose answer names none, in seconds; the specification's value. */
const DEFAULT_LIFE = 60;
/** Largest answer of a token server, in bytes: far more than fits into a request's head. */
const MAX_ANSWER = 1024 * 1024;

/** Remembers a registry's challenge, so that later requests carry authorization from the start. */
export class Authorizer {
  #options: AuthorizerOptions;
  #tokens = new Map<string, { value: string; until: number }>();
  #basic?: string;

  constructor(options: AuthorizerOptions) {
    this.#options = options;
  }

  #now(): number {
    return (this.#options.now ?? (() => performance.now()))();
  }

  /** The header for a request of `scope`; undefined where none is known yet. */
  known(scope: string): string | undefined {
    const token = this.#tokens.get(scope);
    if (token && token.until > this.#now()) return `Bearer ${token.value}`;
    return this.#basic;
  }

  /**
   * Answers a 401: the header for the next attempt. Throws `unauthorized` where no credentials fit the
   * challenge, or the token server refuses them.
   */
  async answer(challengeHeader: string, scope: string, signal?: AbortSignal): Promise<string> {
    this.#tokens.delete(scope);
    this.#basic = undefined;
    const challenges = parseChallenges(challengeHeader);
    const credentials = await this.#options.credentials();
    const bearer = challenges.find((c) => c.scheme === "bearer");
    if (bearer?.parameters.realm && !(credentials && "token" in credentials)) {
      return `Bearer ${await this.#fetchToken(bearer, scope, credentials, signal)}`;
    }
    if (credentials && "token" in credentials) {
      this.#tokens.set(scope, { value: credentials.token, until: Infinity });
      return `Bearer ${credentials.token}`;
    }
    if (
      challenges.some((c) => c.scheme === "basic") && credentials && "username" in credentials
    ) {
      return this.#basic = basic(credentials.username, credentials.password);
    }
    throw new SvcError(
      "unauthorized",
      `Cannot use registry ${this.#options.host}: it asks for a login, and ` +
        (credentials ? "accepts no known kind of login" : "no credentials for it are configured"),
      { help: `log in with docker login ${this.#options.host}, or pass credentials` },
    );
  }

  async #fetchToken(
    challenge: Challenge,
    scope: string,
    credentials: Exclude<Credentials, { token: string }> | undefined,
    signal?: AbortSignal,
  ): Promise<string> {
    const { host, plainHTTP } = this.#options;
    const { realm, service, scope: asked } = challenge.parameters;
    if (!URL.canParse(realm)) {
      throw new SvcError("upstream_failed", `Cannot log in to ${host}: its realm is not a URL`);
    }
    const url = new URL(realm);
    if (url.protocol !== "https:" && !(plainHTTP && url.protocol === "http:")) {
      throw new SvcError(
        "upstream_failed",
        `Cannot log in to ${host}: its token server ${url.origin} is not reached through TLS`,
      );
    }
    const wanted = scope || asked || "";
    let init: RequestInit;
    if (credentials && "identityToken" in credentials) {
      init = {
        method: "POST",
        body: new URLSearchParams({
          grant_type: "refresh_token",
          refresh_token: credentials.identityToken,
          client_id: "svc",
          ...(service ? { service } : {}),
          scope: wanted,
        }),
      };
    } else {
      if (service) url.searchParams.set("service", service);
      for (const one of wanted.split(" ").filter(Boolean)) url.searchParams.append("scope", one);
      init = {
        headers: credentials
          ? { authorization: basic(credentials.username, credentials.password) }
          : {},
      };
    }
    const response = await this.#options.fetch(url, init, signal);
    if (!response.ok) {
      await response.body?.cancel();
      throw new SvcError(
        response.status < 500 ? "unauthorized" : "upstream_failed",
        `Cannot log in to ${host}: its token server answered ${response.status}`,
      );
    }
    const body = await readObject(response, MAX_ANSWER, "").catch(() => undefined) as
      | { token?: unknown; access_token?: unknown; expires_in?: unknown }
      | undefined;
    const token = body?.token ?? body?.access_token;
    if (typeof token !== "string" || token === "") {
      throw new SvcError("upstream_failed", `Cannot log in to ${host}: its answer has no token`);
    }
    const life = typeof body?.expires_in === "number" ? body.expires_in : DEFAULT_LIFE;
    this.#tokens.set(scope, { value: token, until: this.#now() + life * 1000 - EARLY });
    return token;
  }
}
