/**
 * The server's own credentials for its own registry: what it builds it pushes and what it deploys is
 * pulled, under the same rules as everybody's, with tokens that are good for one purpose and a short time.
 */
import { randomUUID } from "node:crypto";
import type { InstallationSecret } from "./installation_secret.ts";
import { type Minted, OwnTokens } from "./own_tokens.ts";

/** Identity of the server itself, as the flight record has it. */
export const INTERNAL_SUBJECT = "svc:internal";

/** No verifier of a stranger's tokens gives it. */
export const INTERNAL_METHOD = "internal";

/**
 * `deliver`: writing without reading, for what is built for somebody who may not pull. No credential of
 * anybody else has it.
 */
export type InternalPurpose = "pull" | "push" | "deliver";

export const DELIVER = "registry:deliver";

/**
 * The Via field of what this process asks other registries for a caller who may not pull here: one that turns
 * out to be this server, by a name that it does not know, refuses its own credentials for it.
 */
export const MAY_NOT_PULL_VIA = `1.1 svc-${randomUUID()}`;

/** Milliseconds: a large image over a slow link; asked for again where it was not enough. */
const LIFETIME_MS = 30 * 60_000;

/** Milliseconds before the end from which a new one is given out. */
const MARGIN_MS = 10 * 60_000;

/** Gives out the same token until its end is near. */
export class InternalCredentials {
  readonly #tokens: OwnTokens;
  readonly #now: () => number;
  readonly #current = new Map<InternalPurpose, Minted>();

  constructor(secret: InstallationSecret, now: () => number = Date.now) {
    this.#tokens = new OwnTokens({ secret, now });
    this.#now = now;
  }

  /** A Bearer token for the registry, good for ten minutes at the least; also the password of any user. */
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
