/** Private keys in files: reading, unlocking and signing. */
import { Buffer } from "node:buffer";
import { fileTrouble, SvcError } from "../../base/errors.ts";
import type { Prompt } from "../prompt.ts";
import { mpint, parsePublicKey, Reader, string } from "../../wire/ssh/packing.ts";
import { type ParsedKey, parseKey } from "../../wire/ssh/private_key.ts";

const TRIES = 3;

/**
 * Throws `config_invalid` for a file that holds no key, `unauthorized` where the passphrase is missing or
 * wrong.
 */
export async function loadKey(path: string, prompt: Prompt): Promise<ParsedKey> {
  let bytes: Uint8Array;
  try {
    bytes = await Deno.readFile(path);
  } catch (cause) {
    const why = fileTrouble(cause);
    throw new SvcError("config_invalid", `Cannot read identity file ${path}: ${why}`, {
      cause,
      help: "correct identity-file",
    });
  }
  const text = new TextDecoder().decode(bytes);
  let passphrase: string | undefined;
  for (let attempt = 0; attempt <= TRIES; attempt++) {
    const key = await parseKey(text, passphrase);
    if (typeof key === "object") {
      if (key.isPrivateKey()) return key;
      throw new SvcError("config_invalid", `Cannot use identity file ${path}: it is a public key`, {
        help: "name the private key",
      });
    }
    if (key === undefined) {
      throw new SvcError(
        "config_invalid",
        `Cannot use identity file ${path}: it is not a private key`,
        { help: "name a private key in OpenSSH's or PEM form" },
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

export type RsaHash = "sha512" | "sha256" | "sha1";

/** Names of an RSA key's signatures, by hash. */
const RSA_NAMES: Record<RsaHash, string> = {
  sha512: "rsa-sha2-512",
  sha256: "rsa-sha2-256",
  sha1: "ssh-rsa",
};

/** The signature of `data` in SSH's format. `hash` applies to RSA keys only. */
export function signWithKey(key: ParsedKey, data: Uint8Array, hash: RsaHash = "sha512"): Buffer {
  const type = new Reader(key.getPublicSSH(), "public key").text();
  const rsa = type === "ssh-rsa";
  const raw = rsa ? key.sign(data, hash) : key.sign(data);
  if (raw instanceof Error) {
    throw new SvcError("unauthorized", "Cannot sign with the SSH key: the key's library refused", {
      cause: raw,
    });
  }
  const blob = type.startsWith("ecdsa-") ? ecdsaBlob(raw) : raw;
  return Buffer.concat([string(rsa ? RSA_NAMES[hash] : type), string(blob)]);
}
