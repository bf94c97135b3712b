/** SSHSIG: signatures that `ssh-keygen -Y sign` makes (OpenSSH's PROTOCOL.sshsig). */
import { Buffer } from "node:buffer";
import { hash, verify } from "node:crypto";
import { parseKeyBlob, type SshPublicKey } from "./public_key.ts";
import { Malformed, packString, WireReader } from "./wire.ts";

const MAGIC = "SSHSIG";
const VERSION = 1;
const MAX_CHARACTERS = 32 * 1024;
const ARMOUR = /^-----BEGIN SSH SIGNATURE-----\s([A-Za-z0-9+/=\s]+)-----END SSH SIGNATURE-----\s*$/;

export interface Sshsig {
  key: SshPublicKey;
  namespace: string;
  hash: "sha256" | "sha512";
  /** The signature's algorithm: "ssh-ed25519", "rsa-sha2-512", … */
  algorithm: string;
  signature: Uint8Array;
  /** Security keys only: flags such as "user present", and how often the key has signed. */
  presence?: { flags: number; counter: number };
}

/** Per signature algorithm: the type of its key, and its digest; ed25519 needs none. SHA-1 is not accepted. */
const ALGORITHMS: Record<
  string,
  { type: string; digest: string | null; size?: number; securityKey?: true }
> = {
  "ssh-ed25519": { type: "ssh-ed25519", digest: null },
  "ecdsa-sha2-nistp256": { type: "ecdsa-sha2-nistp256", digest: "sha256", size: 32 },
  "ecdsa-sha2-nistp384": { type: "ecdsa-sha2-nistp384", digest: "sha384", size: 48 },
  "ecdsa-sha2-nistp521": { type: "ecdsa-sha2-nistp521", digest: "sha512", size: 66 },
  "rsa-sha2-256": { type: "ssh-rsa", digest: "sha256" },
  "rsa-sha2-512": { type: "ssh-rsa", digest: "sha512" },
  "sk-ssh-ed25519@openssh.com": {
    type: "sk-ssh-ed25519@openssh.com",
    digest: null,
    securityKey: true,
  },
  "sk-ecdsa-sha2-nistp256@openssh.com": {
    type: "sk-ecdsa-sha2-nistp256@openssh.com",
    digest: "sha256",
    size: 32,
    securityKey: true,
  },
};

/** Flag: a person touched the key. A program alone cannot set it. */
const USER_PRESENT = 0x01;

/** Reads a signature with or without its armour. Throws `Malformed`. */
export function parseSshsig(text: string): Sshsig {
  if (text.length > MAX_CHARACTERS) throw new Malformed("it is too long");
  const base64 = (ARMOUR.exec(text.trim())?.[1] ?? text).replace(/\s/g, "");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) throw new Malformed("it is not base64");
  const fields = new WireReader(Buffer.from(base64, "base64"));
  if (Buffer.from(fields.take(MAGIC.length)).toString("latin1") !== MAGIC) {
    throw new Malformed("it does not begin as one");
  }
  if (fields.uint32() !== VERSION) throw new Malformed("its version is not known");
  const key = parseKeyBlob(fields.string());
  const namespace = fields.text();
  if (fields.string().length !== 0) throw new Malformed("its reserved field is not empty");
  const name = fields.text();
  if (name !== "sha256" && name !== "sha512") throw new Malformed("its hash is not known");
  const inner = new WireReader(fields.string());
  fields.end();
  const algorithm = inner.text();
  const signature = inner.string();
  const known = Object.hasOwn(ALGORITHMS, algorithm) ? ALGORITHMS[algorithm] : undefined;
  const presence = known?.securityKey && { flags: inner.take(1)[0], counter: inner.uint32() };
  inner.end();
  if (known?.type !== key.type) throw new Malformed("its algorithm is not one for its key");
  return { key, namespace, hash: name, algorithm, signature, ...(presence && { presence }) };
}

/** An ECDSA signature's r and s as numbers of fixed length; undefined where they are invalid. */
function fixedLength(signature: Uint8Array, size: number): Uint8Array | undefined {
  const fields = new WireReader(signature);
  const out = new Uint8Array(2 * size);
  for (const half of [0, 1]) {
    const number = fields.mpint();
    if (number.length > size) return undefined;
    out.set(number, (half + 1) * size - number.length);
  }
  fields.end();
  return out;
}

/** The bytes that a security key signs for a message (PROTOCOL.u2f, "SSH U2F Signatures"). */
function ofSecurityKey(
  { key, presence }: Required<Pick<Sshsig, "key" | "presence">>,
  message: Uint8Array,
): Buffer {
  const state = Buffer.alloc(5);
  state.writeUInt8(presence.flags);
  state.writeUInt32BE(presence.counter, 1);
  return Buffer.concat([
    hash("sha256", Buffer.from(key.application!, "latin1"), "buffer"),
    state,
    hash("sha256", message, "buffer"),
  ]);
}

/** True for a valid signature of `message` in `namespace` by the key inside `sig`. */
export function verifySshsig(sig: Sshsig, namespace: string, message: Uint8Array): boolean {
  if (sig.namespace !== namespace) return false;
  const { presence } = sig;
  if (presence && (presence.flags & USER_PRESENT) === 0) return false;
  const packed = Buffer.concat([
    Buffer.from(MAGIC),
    packString(namespace),
    packString(""),
    packString(sig.hash),
    packString(hash(sig.hash, message, "buffer")),
  ]);
  const signed = presence ? ofSecurityKey({ key: sig.key, presence }, packed) : packed;
  const { digest, size } = ALGORITHMS[sig.algorithm];
  const { key } = sig.key;
  try {
    if (size === undefined) return verify(digest, signed, key, sig.signature);
    const signature = fixedLength(sig.signature, size);
    return signature !== undefined &&
      verify(digest, signed, { key, dsaEncoding: "ieee-p1363" }, signature);
  } catch {
    // The library cannot read the signature: it is not valid.
    return false;
  }
}
