/** Short-lived tokens that this server makes: for sessions, token exchange, the registry and its own traffic. */
import type { Identity } from "../api/route.ts";
import { refusedCredential } from "./credential.ts";
import type { InstallationSecret } from "./installation_secret.ts";
import { Sealer } from "./sealed.ts";
import type { PresentedToken, Verified, Verifier } from "./verifier.ts";

export const OWN_TOKEN_PREFIX = "svct_";

export interface OwnTokenClaims {
  subject: string;
  scopes: readonly string[];
  /** How the bearer had authenticated. */
  method: string;
  /** Fingerprint of the SSH key: the token ends when the key is removed. */
  key?: string;
}

interface Payload {
  sub: string;
  scp: string[];
  mth: string;
  key?: string;
  /** Milliseconds since 1970. */
  exp: number;
}

export interface Minted {
  token: string;
  /** Milliseconds since 1970. */
  expires: number;
}

export interface OwnTokensOptions {
  secret: InstallationSecret;
  /** False where the key no longer has this subject and these scopes: its sessions end then. */
  hasKey?: (fingerprint: string, subject: string, scopes: readonly string[]) => boolean;
  now?: () => number;
}

export class OwnTokens implements Verifier {
  readonly #sealer: Sealer;
  readonly #hasKey: NonNullable<OwnTokensOptions["hasKey"]>;
  readonly #now: () => number;

  constructor({ secret, hasKey = () => false, now = Date.now }: OwnTokensOptions) {
    this.#sealer = new Sealer(OWN_TOKEN_PREFIX, secret.key("svc tokens 1"));
    this.#hasKey = hasKey;
    this.#now = now;
  }

  mint({ subject, scopes, method, key }: OwnTokenClaims, lifetimeMs: number): Minted {
    const expires = this.#now() + lifetimeMs;
    const payload: Payload = { sub: subject, scp: [...scopes], mth: method, key, exp: expires };
    return { token: this.#sealer.seal(payload), expires };
  }

  verify({ text }: PresentedToken): Verified | undefined {
    if (!text.startsWith(OWN_TOKEN_PREFIX)) return undefined;
    const payload = this.#sealer.open(text) as Payload | undefined;
    // Not sealed here, but it may still be a static token.
    if (!payload) return undefined;
    const { sub, scp, mth, key, exp } = payload;
    if (this.#now() >= exp) throw refusedCredential("it has expired");
    const identity: Identity = { subject: sub, scopes: scp, method: mth };
    if (key === undefined) return { identity, expires: exp };
    const holds = () => this.#hasKey(key, sub, scp);
    if (!holds()) throw refusedCredential("its key is enrolled no more");
    return { identity: { ...identity, key }, expires: exp, holds };
  }
}
