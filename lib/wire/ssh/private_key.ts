/** Parses private keys and signs with them (by ssh2, which is loaded when a key is used). */
import { Buffer } from "node:buffer";
import { createPrivateKey, sign } from "node:crypto";
import { Reader } from "./packing.ts";

/** The result of ssh2's parser. */
export interface ParsedKey {
  type: string;
  comment: string;
  isPrivateKey(): boolean;
  getPublicSSH(): Buffer;
  getPrivatePEM(): string;
  sign(data: Uint8Array, algorithm?: string): Buffer | Error;
}

interface Ssh2Utils {
  parseKey(data: Uint8Array | string, passphrase?: string): ParsedKey | ParsedKey[] | Error;
}

/** The key in a text; "locked" where the passphrase is missing or wrong; undefined where the text is not a key. */
export async function parseKey(
  text: string,
  passphrase?: string,
): Promise<ParsedKey | "locked" | undefined> {
  const { default: ssh2 } = await import("ssh2");
  const parsed = (ssh2.utils as Ssh2Utils).parseKey(text, passphrase);
  const key = Array.isArray(parsed) ? parsed[0] : parsed;
  if (!(key instanceof Error)) return key.isPrivateKey() ? repaired(key) : key;
  return /passphrase|bad decrypt|integrity|encrypted/i.test(key.message) ? "locked" : undefined;
}

const CURVES: Record<string, { crv: string; bytes: number; hash: string }> = {
  "ecdsa-sha2-nistp256": { crv: "P-256", bytes: 32, hash: "sha256" },
  "ecdsa-sha2-nistp384": { crv: "P-384", bytes: 48, hash: "sha384" },
  "ecdsa-sha2-nistp521": { crv: "P-521", bytes: 66, hash: "sha512" },
};

/** The private number of a SEC 1 key, padded to the curve's size. */
function scalar(pem: string, bytes: number): Buffer {
  const der = Buffer.from(pem.replace(/-----.*?-----|\s/g, ""), "base64");
  // SEQUENCE (one byte of length, or two), INTEGER 1, OCTET STRING
  const at = (der[1] & 0x80 ? 3 : 2) + 3;
  const value = der.subarray(at + 2, at + 2 + der[at + 1]);
  const rest = value.subarray(value.findIndex((byte) => byte !== 0));
  return Buffer.concat([Buffer.alloc(bytes - rest.length), rest]);
}

/**
 * Corrects an ECDSA key. ssh2 passes on the private number as the file has it: with one byte too many for half
 * of all keys, which Deno refuses.
 */
function repaired(key: ParsedKey): ParsedKey {
  const curve = CURVES[key.type];
  if (!curve) return key;
  const { crv, bytes, hash } = curve;
  const reader = new Reader(key.getPublicSSH(), "public key");
  reader.string();
  reader.string();
  const point = reader.string();
  const url = (part: Buffer) => part.toString("base64url");
  const own = createPrivateKey({
    format: "jwk",
    key: {
      kty: "EC",
      crv,
      x: url(point.subarray(1, 1 + bytes)),
      y: url(point.subarray(1 + bytes)),
      d: url(scalar(key.getPrivatePEM(), bytes)),
    },
  });
  return Object.assign(key, { sign: (data: Uint8Array) => sign(hash, data, own) });
}
