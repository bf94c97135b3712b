/**
 * The server's own credentials for its registry. The server pushes its builds and deployments pull images under
 * the same rules as all clients, with tokens for one purpose and a short time.
 */
import { randomUUID } from "node:crypto";
import type { InstallationSecret } from "./installation_secret.ts";
import { type Minted, OwnTokens } from "./own_tokens.ts";

/** The server's own identity, as the flight record shows it. */
export const INTERNAL_SUBJECT = "svc:internal";

/** No verifier of other tokens gives this method. */
export const INTERNAL_METHOD = "internal";

/**
 * `deliver`: writing without reading, for images built for a caller who may not pull. Only the server's own
 * credentials have this purpose.
 */
export type InternalPurpose = "pull" | "push" | "deliver";

export const DELIVER = "registry:deliver";

/**
 * The Via field of requests that this process sends to other registries for a caller who may not pull here.
 * Where such a registry is this server under an unknown name, it refuses its own credentials.
 */
export const MAY_NOT_PULL_VIA = `1.1 svc-${randomUUID()}`;

/** Milliseconds: enough for a large image over a slow link. A longer transfer asks for another token. */
const LIFETIME_MS = 30 * 60_000;

/** Milliseconds before a token's end from which a new one is given out. */
const MARGIN_MS = 10 * 60_000;

/** Gives out one token until it nears its end. */
export class InternalCredentials {
  readonly #tokens: OwnTokens;
  readonly #now: () => number;
  readonly #current = new Map<InternalPurpose, Minted>();

  constructor(secret: InstallationSecret, now: () => number = Date.now) {
    this.#tokens = new OwnTokens({ secret, now });
    this.#now = now;
  }

  /** A Bearer token for the registry, valid for at least ten minutes; also accepted as the password of any user. */
  token(purpose: InternalPurpose): string {
    const current = this.#current.get(purpose);
    if (current && current.expires - this.#now() > MARGIN_MS) return current.token;
    const scopes = [`registry:${purpose}`];
    const claims = { subject: INTERNAL_SUBJECT, scopes, method: INTERNAL_METHOD };
    const minted = this.#tokens.mint(claims, LIFETIME_MS);
    this.#current.set(purpose, minted);
    return minted.token;
  }
}
