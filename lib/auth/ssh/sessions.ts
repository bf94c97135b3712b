/** Opens sessions for holders of enrolled keys, who sign a challenge that is valid once. */
import { randomBytes } from "node:crypto";
import {
  type ChallengeRequest,
  type ChallengeResponse,
  SESSION_DEFAULT_MS,
  SESSION_MAX_MS,
  type SessionRequest,
  type SessionResponse,
  SSHSIG_NAMESPACE,
} from "../../api/auth.ts";
import { parseDuration } from "../../base/duration.ts";
import { SvcError } from "../../base/errors.ts";
import { forwardClock } from "../../base/forward_clock.ts";
import type { InstallationSecret } from "../installation_secret.ts";
import type { OwnTokens } from "../own_tokens.ts";
import { grantsScope, parseScopes } from "../scope.ts";
import { Sealer } from "../sealed.ts";
import type { KeyStore, StoredKey } from "./key_store.ts";
import { parseSshsig, verifySshsig } from "./sshsig.ts";
import { Malformed } from "./wire.ts";

/** Milliseconds in which a signed challenge must return: long enough to type a passphrase. */
const CHALLENGE_MS = 120_000;

/** Only holders of enrolled keys can use a challenge. */
const MOST_USED = 100_000;

const FINGERPRINT = /^SHA256:[A-Za-z0-9+/]{43}$/;

interface Challenge {
  /** The key's fingerprint. */
  key: string;
  scopes: string[];
  /** Milliseconds that the session lasts. */
  ttl: number;
  /** Milliseconds since 1970. */
  exp: number;
  nonce: string;
}

export interface SessionsOptions {
  secret: InstallationSecret;
  keys: KeyStore;
  tokens: OwnTokens;
  now?: () => number;
  /** Used challenges that are remembered; default 100,000. */
  mostUsed?: number;
}

export class Sessions {
  readonly #sealer: Sealer;
  readonly #options: Required<SessionsOptions>;
  /** When each used nonce may be forgotten, in the order of use. */
  readonly #used = new Map<string, number>();
  /** Of challenges: a used one that was forgotten has ended for good. */
  readonly #clock: () => number;

  constructor(options: SessionsOptions) {
    this.#options = { now: Date.now, mostUsed: MOST_USED, ...options };
    this.#clock = forwardClock(this.#options.now);
    const { secret } = options;
    // Used challenges are remembered in memory, so a process with a secret of its own accepts only its own
    // challenges. Replicas accept each other's: a client may get a challenge from one and a session from
    // another.
    const key = secret.shared ? secret.key("svc challenges 1") : randomBytes(32);
    this.#sealer = new Sealer("svcc_", key);
  }

  /** Throws `argument_invalid`. Does not reveal whether the key is enrolled. */
  challenge({ fingerprint, scope = "api", ttl }: ChallengeRequest): ChallengeResponse {
    if (!FINGERPRINT.test(fingerprint)) {
      throw new SvcError(
        "argument_invalid",
        "Cannot give a challenge: the fingerprint is not SHA256: and 43 characters of base64",
      );
    }
    const exp = this.#clock() + CHALLENGE_MS;
    const challenge: Challenge = {
      key: fingerprint,
      scopes: [...new Set(parseScopes(scope, "scope"))],
      ttl: sessionLength(ttl),
      exp,
      nonce: randomBytes(16).toString("base64url"),
    };
    return {
      challenge: this.#sealer.seal(challenge),
      namespace: SSHSIG_NAMESPACE,
      expiresAt: new Date(exp).toISOString(),
    };
  }

  /**
   * Throws `unauthorized` for a bad proof, `denied` for a scope that the key does not have. `proved` is called
   * with the key after the proof and before the scope check.
   */
  open(
    { challenge: text, signature }: SessionRequest,
    proved: (key: StoredKey) => void = () => {},
  ): SessionResponse {
    const { now, keys, tokens } = this.#options;
    const challenge = this.#sealer.open(text) as Challenge | undefined;
    if (!challenge) throw refused("the challenge is not one of this server");
    if (this.#clock() >= challenge.exp) throw refused("the challenge has expired");
    const sig = readSignature(signature);
    if (
      sig.key.fingerprint !== challenge.key ||
      !verifySshsig(sig, SSHSIG_NAMESPACE, new TextEncoder().encode(text))
    ) throw refused("the signature does not verify");
    const key = keys.find(challenge.key, now());
    if (!key) throw refused("the key is not enrolled");
    this.#use(challenge);
    proved(key);
    const { name: subject, expires: end = Infinity } = key;
    for (const scope of challenge.scopes) {
      if (grantsScope(key.scopes, scope)) continue;
      throw new SvcError("denied", `Cannot open a session: the key's scope is not ${scope}`, {
        help: `ask for ${key.scopes.join(" ")}, or have the key enrolled with more`,
        detail: { scope },
      });
    }
    const { token, expires } = tokens.mint({
      subject,
      scopes: challenge.scopes,
      method: "ssh-key",
      key: challenge.key,
    }, Math.min(challenge.ttl, end - now()));
    return {
      token,
      tokenType: "Bearer",
      scope: challenge.scopes.join(" "),
      subject,
      expiresAt: new Date(expires).toISOString(),
      expiresIn: Math.floor((expires - now()) / 1000),
    };
  }

  /** Throws where the challenge was used before. */
  #use({ nonce, exp }: Challenge): void {
    const now = this.#clock();
    for (const [old, until] of this.#used) {
      if (until > now) break;
      this.#used.delete(old);
    }
    if (this.#used.has(nonce)) throw refused("the challenge was used before");
    if (this.#used.size >= this.#options.mostUsed) {
      throw new SvcError("unavailable", "Cannot open a session: too many were opened just now");
    }
    this.#used.set(nonce, exp);
  }
}

function sessionLength(ttl: string | undefined): number {
  if (ttl === undefined) return SESSION_DEFAULT_MS;
  let ms;
  try {
    ms = parseDuration(ttl);
  } catch (cause) {
    throw new SvcError("argument_invalid", `Cannot read ttl: ${(cause as Error).message}`, {
      cause,
    });
  }
  if (ms > 0 && ms <= SESSION_MAX_MS) return ms;
  throw new SvcError("argument_invalid", `Cannot give a session of ${ttl}: it lasts at most 24h`);
}

function readSignature(text: string) {
  try {
    return parseSshsig(text);
  } catch (error) {
    if (error instanceof Malformed) throw refused(`the signature cannot be read: ${error.message}`);
    throw error;
  }
}

function refused(why: string): SvcError {
  return new SvcError("unauthorized", `Cannot open a session: ${why}`, {
    help: "ask for a new challenge, and sign it with an enrolled key",
  });
}
