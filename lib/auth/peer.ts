/**
 * Replicas of one server know each other by keys: each keeps an ECDSA P-256 key, publishes the public half
 * with its heartbeat, and signs a short-lived JWT for each relay (SPEC "Authentication" 3).
 */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { join } from "node:path";
import type { JWK } from "jose";
import { SvcError } from "../base/errors.ts";
import { writeFileAtomic } from "../base/fs.ts";
import { refusedCredential } from "./credential.ts";
import type { PresentedToken, Verified, Verifier } from "./verifier.ts";

/** In the data directory, mode 0600. */
const PEER_KEY_FILE = "peer.key";

/** Milliseconds that a peer's token is good for (SPEC "Limits"). */
const PEER_TOKEN_MS = 300_000;

const AUDIENCE = "svc-peer";
const LEEWAY_S = 60;

/** Milliseconds until a verified token is checked again: a withdrawn key takes effect then. */
const FRESH_MS = 30_000;

/** The public half of the key, as it is published. */
export interface PeerPublicKey {
  kty: "EC";
  crv: "P-256";
  x: string;
  y: string;
}

function damaged(path: string, cause?: unknown): SvcError {
  return new SvcError("config_invalid", `Cannot read the peer key ${path}: it is damaged`, {
    cause,
    help: "restore the file, or remove it to get a new key",
  });
}

async function loadKey(dataDir: string): Promise<KeyObject> {
  const path = join(dataDir, PEER_KEY_FILE);
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
    await writeFileAtomic(path, pem, { mode: 0o600 });
    return privateKey;
  }
  let key;
  try {
    key = createPrivateKey(text);
  } catch (cause) {
    throw damaged(path, cause);
  }
  if (key.asymmetricKeyDetails?.namedCurve !== "prime256v1") throw damaged(path);
  await Deno.chmod(path, 0o600);
  return key;
}

/** This replica's own key. */
export class PeerKey {
  readonly #key: KeyObject;
  /** The published half. */
  readonly publicKey: PeerPublicKey;
  /** SVC_REPLICA_ID: `sub` and `kid` of its tokens. */
  readonly replica: string;

  private constructor(key: KeyObject, replica: string) {
    this.#key = key;
    this.replica = replica;
    const { x, y } = createPublicKey(key).export({ format: "jwk" }) as PeerPublicKey;
    this.publicKey = { kty: "EC", crv: "P-256", x, y };
  }

  /** Reads the key in the data directory, or makes one. Throws `config_invalid` where it is damaged. */
  static async open(dataDir: string, replica: string): Promise<PeerKey> {
    return new PeerKey(await loadKey(dataDir), replica);
  }

  /** A token for one relay, or for several in the next minutes. */
  async mint(now = Date.now()): Promise<string> {
    const { SignJWT } = await import("jose");
    const seconds = Math.floor(now / 1000);
    return await new SignJWT({ scope: "peer" })
      .setProtectedHeader({ alg: "ES256", kid: this.replica })
      .setSubject(this.replica)
      .setAudience(AUDIENCE)
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + PEER_TOKEN_MS / 1000)
      .sign(this.#key);
  }
}

export interface PeerVerifierOptions {
  /**
   * The published key of a living replica. Called for each unknown token, and again from time to time. Rejects
   * where the key cannot be looked up.
   */
  keyOf: (replica: string) => Promise<PeerPublicKey | undefined>;
  now?: () => number;
}

function unknowable(cause: unknown): never {
  throw new SvcError(
    "unavailable",
    "Cannot check the credential: the keys of the other replicas cannot be read",
    { cause },
  );
}

/** Verifies tokens of other replicas. Tokens for another audience are left to the other verifiers. */
export class PeerVerifier implements Verifier {
  readonly #options: Required<PeerVerifierOptions>;

  constructor(options: PeerVerifierOptions) {
    this.#options = { now: Date.now, ...options };
  }

  async verify({ text }: PresentedToken): Promise<Verified | undefined> {
    const { decodeJwt, importJWK, jwtVerify } = await import("jose");
    try {
      if (decodeJwt(text).aud !== AUDIENCE) return undefined;
    } catch {
      return undefined;
    }
    const { keyOf, now } = this.#options;
    try {
      const { payload, protectedHeader } = await jwtVerify(
        text,
        async ({ kid }) => {
          const jwk = kid === undefined ? undefined : await keyOf(kid).catch(unknowable);
          if (!jwk) throw refusedCredential("its replica is not known");
          return await importJWK(jwk as unknown as JWK, "ES256");
        },
        {
          algorithms: ["ES256"],
          audience: AUDIENCE,
          clockTolerance: LEEWAY_S,
          currentDate: new Date(now()),
          requiredClaims: ["exp", "iat", "sub"],
          maxTokenAge: PEER_TOKEN_MS / 1000,
        },
      );
      if (payload.sub !== protectedHeader.kid || payload.scope !== "peer") {
        throw refusedCredential("it is not one of a replica");
      }
      return {
        identity: { subject: payload.sub!, scopes: ["peer"], method: "peer" },
        expires: Math.min((payload.exp! + LEEWAY_S) * 1000, now() + FRESH_MS),
      };
    } catch (error) {
      if (error instanceof SvcError) throw error;
      const expired = (error as { code?: string }).code === "ERR_JWT_EXPIRED";
      throw refusedCredential(expired ? "it has expired" : "it does not verify", error);
    }
  }
}
