/**
 * SSH public keys: ed25519, ECDSA over the NIST curves, and RSA (RFC 4253 6.6, RFC 5656, RFC 8709), and
 * those of FIDO security keys (OpenSSH's PROTOCOL.u2f).
 */
import { Buffer } from "node:buffer";
import { createPublicKey, hash, type KeyObject } from "node:crypto";
import { Malformed, WireReader } from "./wire.ts";

export interface SshPublicKey {
  /** "ssh-ed25519", "ecdsa-sha2-nistp256", …, "ssh-rsa". */
  type: string;
  /** The key as on the wire. */
  blob: Uint8Array;
  /** "SHA256:…", as `ssh-keygen -l` prints it. */
  fingerprint: string;
  key: KeyObject;
  /** Security keys only: the application that the key signs for, by default "ssh:". */
  application?: string;
}

/** Members of a JSON Web Key. */
type Jwk = Record<string, string>;

/** The key type that node accepts: the library's types for it vary. */
type JwkInput = Extract<Parameters<typeof createPublicKey>[0], { format: "jwk" }>;

/** Per curve: its name in a JSON Web Key, and the bytes of a coordinate. */
const CURVES: Record<string, { crv: string; size: number }> = {
  nistp256: { crv: "P-256", size: 32 },
  nistp384: { crv: "P-384", size: 48 },
  nistp521: { crv: "P-521", size: 66 },
};

/** Per type of security key: the type of the key inside it. */
const SECURITY_KEYS: Record<string, string> = {
  "sk-ssh-ed25519@openssh.com": "ssh-ed25519",
  "sk-ecdsa-sha2-nistp256@openssh.com": "ecdsa-sha2-nistp256",
};

export const KEY_TYPES: readonly string[] = [
  "ssh-ed25519",
  ...Object.keys(CURVES).map((curve) => `ecdsa-sha2-${curve}`),
  "ssh-rsa",
  ...Object.keys(SECURITY_KEYS),
];

const LEAST_RSA_BITS = 2048;
const MOST_RSA_BITS = 16384;

const url = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");

function ed25519(fields: WireReader): Jwk {
  const x = fields.string();
  if (x.length !== 32) throw new Malformed("its key has another length");
  return { kty: "OKP", crv: "Ed25519", x: url(x) };
}

function ecdsa(fields: WireReader, type: string): Jwk {
  const name = fields.text();
  if (type !== `ecdsa-sha2-${name}`) throw new Malformed("its curve is not that of its type");
  const { crv, size } = CURVES[name];
  const point = fields.string();
  if (point.length !== 1 + 2 * size || point[0] !== 4) {
    throw new Malformed("its point is not an uncompressed one of its curve");
  }
  return { kty: "EC", crv, x: url(point.subarray(1, 1 + size)), y: url(point.subarray(1 + size)) };
}

function rsa(fields: WireReader): Jwk {
  const e = fields.mpint();
  const n = fields.mpint();
  const bits = n.length * 8 - Math.clz32(n[0]) + 24;
  if (bits < LEAST_RSA_BITS) {
    throw new Malformed(`its RSA key has less than ${LEAST_RSA_BITS} bits`);
  }
  if (bits > MOST_RSA_BITS || e.length > 8) throw new Malformed("its RSA key is out of bounds");
  return { kty: "RSA", n: url(n), e: url(e) };
}

export function fingerprintOf(blob: Uint8Array): string {
  return `SHA256:${hash("sha256", blob, "base64").replace(/=+$/, "")}`;
}

/** Throws `Malformed` unless `blob` is exactly one key of a known type. */
export function parseKeyBlob(blob: Uint8Array): SshPublicKey {
  const fields = new WireReader(blob);
  const type = fields.text();
  if (!KEY_TYPES.includes(type)) {
    const shown = /^[\w@.-]{1,64}$/.test(type) ? type : "unreadable";
    throw new Malformed(`its type ${shown} is not one of ${KEY_TYPES.join(", ")}`);
  }
  const inner = SECURITY_KEYS[type];
  const plain = inner ?? type;
  const jwk = plain === "ssh-ed25519"
    ? ed25519(fields)
    : plain === "ssh-rsa"
    ? rsa(fields)
    : ecdsa(fields, plain);
  const application = inner === undefined ? undefined : fields.text();
  fields.end();
  let key;
  try {
    key = createPublicKey({ key: jwk, format: "jwk" } as unknown as JwkInput);
  } catch (cause) {
    throw Object.assign(new Malformed("it is not a key of its type"), { cause });
  }
  const made = { type, blob, fingerprint: fingerprintOf(blob), key };
  return application === undefined ? made : { ...made, application };
}

/** A key from its base64, as in a `.pub` file beside its type. Throws `Malformed`. */
export function parseKeyText(type: string, base64: string): SshPublicKey {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) throw new Malformed("its key is not base64");
  const parsed = parseKeyBlob(Buffer.from(base64, "base64"));
  if (parsed.type !== type) throw new Malformed("its key is not of the type before it");
  return parsed;
}
