/**
 * Wire types of `/.svc/v1/auth/…` and of what `/.well-known/svc` says of credentials (DESIGN.md section 5).
 *
 * A session with an SSH key takes two calls, both open. POST `/auth/challenge` names the key and what is
 * wanted; the answer's `challenge` is opaque text that carries all of it. The client signs exactly those
 * characters (UTF-8, no newline added) as an SSHSIG in the namespace `SSHSIG_NAMESPACE`, as
 * `printf %s "$challenge" | ssh-keygen -Y sign -n svc-session@v1 -f key` does, and sends challenge and
 * signature to POST `/auth/session`. A challenge is good once.
 */

/** How a credential can be given; the words of `WellKnown.auth`. */
export type AuthMethod = "token" | "jwt" | "mtls" | "ssh-key";

/** Namespace of the SSHSIG that proves possession of a key. */
export const SSHSIG_NAMESPACE = "svc-session@v1";

/** Milliseconds that a session with an SSH key lasts unless asked otherwise, and at most. */
export const SESSION_DEFAULT_MS = 3_600_000;
export const SESSION_MAX_MS = 24 * 3_600_000;

/** POST `/auth/challenge`. */
export interface ChallengeRequest {
  /** `SHA256:…` of the public key, as `ssh-keygen -lf` prints it. */
  fingerprint: string;
  /** Scopes separated by spaces; absent: `api`. The session has these or is refused. */
  scope?: string;
  /** Go duration of the session; absent: 1h. At most 24h. */
  ttl?: string;
}

/** The answer to any well-formed fingerprint: it does not tell whether the key is enrolled. */
export interface ChallengeResponse {
  /** Opaque; at most 1024 characters of base64url and dots. */
  challenge: string;
  /** `SSHSIG_NAMESPACE` of this server. */
  namespace: string;
  /** RFC 3339; about a minute from now. */
  expiresAt: string;
}

/**
 * POST `/auth/session`. 401 (`unauthorized`) for every invalid proof, 403 for a scope that the key does not
 * have.
 */
export interface SessionRequest {
  challenge: string;
  /**
   * The SSHSIG: the armoured text (`-----BEGIN SSH SIGNATURE-----`), or its base64 without the armour. It
   * carries the public key.
   */
  signature: string;
}

/** 201. */
export interface SessionResponse {
  /** Sent as `Authorization: Bearer`, or as the password of any user on `/v2/*`. */
  token: string;
  tokenType: "Bearer";
  /** Scopes separated by spaces. */
  scope: string;
  /** The caller identity: the name the key is enrolled under. */
  subject: string;
  /** RFC 3339. */
  expiresAt: string;
  /** Seconds from now. */
  expiresIn: number;
}

/**
 * POST `/auth/keys`. Answers 201 with the `EnrolledKey`, 200 where the same key was enrolled with the same
 * settings.
 */
export interface EnrolKeyRequest {
  /** A line of OpenSSH's public-key form: `ssh-ed25519 AAAA… comment`. */
  publicKey: string;
  /** Caller identity of its sessions; absent: the key's comment, else its fingerprint. */
  name?: string;
  /** Scopes, separated by spaces, that its sessions may have at most; absent: `api`. */
  scope?: string;
  /** RFC 3339, to the second; absent: as late as the server lets a key last. */
  expiresAt?: string;
}

export interface EnrolledKey {
  /** `SHA256:…` */
  fingerprint: string;
  /** `ssh-ed25519`, `ecdsa-sha2-nistp256`, `ssh-rsa`, … */
  type: string;
  name: string;
  /** Scopes, separated by spaces. */
  scope: string;
  /** `declared` keys come from the server's configuration and cannot be removed by the API. */
  source: "declared" | "enrolled";
  expiresAt?: string;
  /** Type and base64, without options and comment. */
  publicKey: string;
}

/** GET `/auth/keys`: under a policy the caller's own, with the action `admin` everybody's. DELETE `/auth/keys/{fingerprint}` (percent-encoded) answers 204. */
export interface KeyList {
  keys: EnrolledKey[];
  /** False where keys can be declared in the configuration only. */
  enrolment: boolean;
}

/** RFC 8693: the values of POST `/auth/token`'s form fields. */
export const TOKEN_EXCHANGE = {
  grantType: "urn:ietf:params:oauth:grant-type:token-exchange",
  accessToken: "urn:ietf:params:oauth:token-type:access_token",
  idToken: "urn:ietf:params:oauth:token-type:id_token",
  jwt: "urn:ietf:params:oauth:token-type:jwt",
} as const;

/**
 * Fields of POST `/auth/token` (`application/x-www-form-urlencoded`, RFC 8693 2.1). Open: the subject
 * token is the credential. `subject_token_type` is one of `TOKEN_EXCHANGE.accessToken`, `.idToken` and `.jwt`;
 * `scope` narrows; `requested_token_type`, where given, is `accessToken`.
 */
export interface TokenExchangeForm {
  grant_type: string;
  subject_token: string;
  subject_token_type: string;
  scope?: string;
  requested_token_type?: string;
}

/** RFC 8693 2.2.1. */
export interface TokenExchangeResponse {
  access_token: string;
  issued_token_type: string;
  token_type: "Bearer";
  /** Seconds. */
  expires_in: number;
  /** Scopes, separated by spaces. */
  scope: string;
}

/** RFC 6749 5.2, with status 400. An invalid subject token is `invalid_request` (RFC 8693 2.2.2). */
export interface TokenExchangeError {
  error: "invalid_request" | "invalid_scope" | "unsupported_grant_type";
  error_description: string;
}
