/** SVC_JWT_HS256_SECRET and SVC_JWT_PUBLIC_KEY: one key for as long as the server runs. */
import { createPublicKey, type KeyObject } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import type { KeySource } from "./key_source.ts";

function fixed(algorithm: string, key: KeyObject | Uint8Array): KeySource {
  return {
    algorithms: [algorithm],
    own: true,
    generation: 0,
    touch: () => {},
    key: () => Promise.resolve(key),
    [Symbol.dispose]: () => {},
  };
}

export function sharedSecret(secret: string): KeySource {
  return fixed("HS256", new TextEncoder().encode(secret));
}

/** RSA gives RS256, P-256 gives ES256. Throws `config_invalid` for every other key. */
export function publicKey(pem: string, path: string): KeySource {
  const refused = (why: string, cause?: unknown) =>
    new SvcError("config_invalid", `Cannot read SVC_JWT_PUBLIC_KEY: ${path}: ${why}`, {
      cause,
      help: "name a PEM file with an RSA (2048 bits or more) or P-256 public key",
    });
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw refused("it holds a private key, which this server must not have");
  }
  let key;
  try {
    key = createPublicKey(pem);
  } catch (cause) {
    throw refused("it holds no public key in PEM", cause);
  }
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === "rsa") {
    if ((details?.modulusLength ?? 0) < 2048) throw refused("its RSA key has less than 2048 bits");
    return fixed("RS256", key);
  }
  if (type === "ec" && details?.namedCurve === "prime256v1") return fixed("ES256", key);
  throw refused(`its key is ${[type, details?.namedCurve].filter(Boolean).join(" ")}`);
}
