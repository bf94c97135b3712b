/** Private keys in files: read, unlocked, and made to sign (by ssh2, loaded when a key is used). */
import { Buffer } from "node:buffer";
import { createPrivateKey, sign } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import type { Prompt } from "../prompt.ts";
import { mpint, parsePublicKey, Reader, string } from "./wire.ts";

/** What ssh2's parser gives. */
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

export async function ssh2Utils(): Promise<Ssh2Utils> {
  const { default: ssh2 } = await import("ssh2");
  return ssh2.utils as Ssh2Utils;
}

const TRIES = 3;

/** Throws `config_invalid` for a file that is no key, `unauthorized` for one that nobody unlocks. */
export async function loadKey(path: string, prompt: Prompt): Promise<ParsedKey> {
  let bytes: Uint8Array;
  try {
    bytes = await Deno.readFile(path);
  } catch (cause) {
    const why = cause instanceof Deno.errors.NotFound
      ? "there is no such file"
      : (cause as Error).message;
    throw new SvcError("config_invalid", `Cannot read identity file ${path}: ${why}`, {
      cause,
      help: "correct identity-file",
    });
  }
  const { parseKey } = await ssh2Utils();
  const text = new TextDecoder().decode(bytes);
  let passphrase: string | undefined;
  for (let attempt = 0; attempt <= TRIES; attempt++) {
    const parsed = parseKey(text, passphrase);
    const key = Array.isArray(parsed) ? parsed[0] : parsed;
    if (!(key instanceof Error)) {
      if (key.isPrivateKey()) return repaired(key);
      throw new SvcError("config_invalid", `Cannot use identity file ${path}: it is a public key`, {
        help: "name the private key",
      });
    }
    const locked = /passphrase|bad decrypt|integrity|encrypted/i.test(key.message);
    if (!locked) {
      throw new SvcError(
        "config_invalid",
        `Cannot use identity file ${path}: it is no private key`,
        {
          cause: key,
          help: "name a private key in OpenSSH's or PEM form",
        },
      );
    }
    if (attempt === TRIES) break;
    const again = passphrase === undefined ? "" : "wrong passphrase; ";
    passphrase = await prompt.secret(`${again}passphrase for ${path}: `);
    if (passphrase === undefined) {
      throw new SvcError(
        "unauthorized",
        `Cannot unlock ${path}: it is encrypted, and there is nobody to ask`,
        {
          help: "ssh-add it, set SSH_ASKPASS, or run svc on a terminal",
        },
      );
    }
  }
  throw new SvcError("unauthorized", `Cannot unlock ${path}: wrong passphrase`, {
    help: "try again with the right one",
  });
}

const CURVES: Record<string, { crv: string; bytes: number; hash: string }> = {
  "ecdsa-sha2-nistp256": { crv: "P-256", bytes: 32, hash: "sha256" },
  "ecdsa-sha2-nistp384": { crv: "P-384", bytes: 48, hash: "sha384" },
  "ecdsa-sha2-nistp521": { crv: "P-521", bytes: 66, hash: "sha512" },
};

/** The private number of a SEC 1 key, as many bytes as the curve has. */
function scalar(pem: string, bytes: number): Buffer {
  const der = Buffer.from(pem.replace(/-----.*?-----|\s/g, ""), "base64");
  // SEQUENCE (one byte of length, or two), INTEGER 1, OCTET STRING
  const at = (der[1] & 0x80 ? 3 : 2) + 3;
  const value = der.subarray(at + 2, at + 2 + der[at + 1]);
  const rest = value.subarray(value.findIndex((byte) => byte !== 0));
  return Buffer.concat([Buffer.alloc(bytes - rest.length), rest]);
}

/**
 * ssh2 hands on an ECDSA key's number with as many bytes as the file has it, one too many for half of all
 * keys, and Deno refuses to sign with that.
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

/** The public half beside a private key file; undefined where there is none. */
export async function publicKeyBeside(path: string): Promise<Buffer | undefined> {
  const text = await Deno.readTextFile(`${path}.pub`).catch(() => "");
  return parsePublicKey(text.split("\n")[0])?.blob;
}

/** `r` and `s` of a DER signature, as SSH writes them. */
function ecdsaBlob(der: Buffer): Buffer {
  const part = (at: number) => ({
    value: der.subarray(at + 2, at + 2 + der[at + 1]),
    end: at + 2 + der[at + 1],
  });
  const r = part(der[1] & 0x80 ? 2 + (der[1] & 0x7f) : 2);
  return Buffer.concat([mpint(r.value), mpint(part(r.end).value)]);
}

/** The signature of `data`, as SSH writes signatures; RSA with SHA-512. */
export function signWithKey(key: ParsedKey, data: Uint8Array): Buffer {
  const type = new Reader(key.getPublicSSH(), "public key").text();
  const rsa = type === "ssh-rsa";
  const raw = rsa ? key.sign(data, "sha512") : key.sign(data);
  if (raw instanceof Error) {
    throw new SvcError("unauthorized", "Cannot sign with the SSH key: it refused", { cause: raw });
  }
  const blob = type.startsWith("ecdsa-") ? ecdsaBlob(raw) : raw;
  return Buffer.concat([string(rsa ? "rsa-sha2-512" : type), string(blob)]);
}
