/** What this folder's tests share: keys and SSHSIGs, made with node's own cryptography. */
import { Buffer } from "node:buffer";
import { generateKeyPairSync, hash, type KeyObject, sign } from "node:crypto";
import { packString } from "./wire.ts";

export interface TestKey {
  /** "TYPE BASE64". */
  line: string;
  blob: Uint8Array;
  privateKey: KeyObject;
  /** Signature algorithm and digest. */
  algorithm: string;
  digest: string | null;
}

function mpint(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0);
  const short = bytes.subarray(start);
  return packString(short[0] >= 0x80 ? Buffer.concat([Buffer.of(0), short]) : short);
}

const decode = (text: string | undefined) => Buffer.from(text!, "base64url");

const CURVES = { 256: "P-256", 384: "P-384", 521: "P-521" } as const;

export function testKey(kind: "ed25519" | "rsa" | 256 | 384 | 521): TestKey {
  const made = (type: string, fields: Buffer[], pair: { privateKey: KeyObject }, rest: {
    algorithm: string;
    digest: string | null;
  }): TestKey => {
    const blob = Buffer.concat([packString(type), ...fields]);
    return {
      ...rest,
      blob,
      line: `${type} ${blob.toString("base64")}`,
      privateKey: pair.privateKey,
    };
  };
  if (kind === "ed25519") {
    const pair = generateKeyPairSync("ed25519");
    const { x } = pair.publicKey.export({ format: "jwk" });
    return made("ssh-ed25519", [packString(decode(x))], pair, {
      algorithm: "ssh-ed25519",
      digest: null,
    });
  }
  if (kind === "rsa") {
    const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const { e, n } = pair.publicKey.export({ format: "jwk" });
    return made("ssh-rsa", [mpint(decode(e)), mpint(decode(n))], pair, {
      algorithm: "rsa-sha2-512",
      digest: "sha512",
    });
  }
  const pair = generateKeyPairSync("ec", { namedCurve: CURVES[kind] });
  const { x, y } = pair.publicKey.export({ format: "jwk" });
  const point = Buffer.concat([Buffer.of(4), decode(x), decode(y)]);
  const type = `ecdsa-sha2-nistp${kind}`;
  return made(type, [packString(`nistp${kind}`), packString(point)], pair, {
    algorithm: type,
    digest: { 256: "sha256", 384: "sha384", 521: "sha512" }[kind],
  });
}

export interface TestSecurityKey {
  /** "TYPE BASE64". */
  line: string;
  blob: Buffer;
  /** The signature as an agent gives it; flag 1: somebody touched the key. */
  sign(data: Uint8Array, flags?: number): Buffer;
}

/** A FIDO key without the hardware: what it signs is what the hardware would. */
export function testSecurityKey(kind: "ed25519" | 256): TestSecurityKey {
  const inner = testKey(kind);
  const type = kind === "ed25519"
    ? "sk-ssh-ed25519@openssh.com"
    : "sk-ecdsa-sha2-nistp256@openssh.com";
  const application = "ssh:";
  const innerType = packString(inner.algorithm);
  const blob = Buffer.concat([
    packString(type),
    Buffer.from(inner.blob).subarray(innerType.length),
    packString(application),
  ]);
  return {
    line: `${type} ${blob.toString("base64")}`,
    blob,
    sign(data, flags = 1) {
      const state = Buffer.from([flags, 0, 0, 0, 7]);
      const message = Buffer.concat([
        hash("sha256", application, "buffer"),
        state,
        hash("sha256", data, "buffer"),
      ]);
      return Buffer.concat([packString(type), packString(rawSign(inner, message)), state]);
    },
  };
}

/** As it stands in a signature blob. */
function rawSign(key: TestKey, data: Uint8Array): Buffer {
  const signature = sign(key.digest, data, { key: key.privateKey, dsaEncoding: "ieee-p1363" });
  if (!key.algorithm.startsWith("ecdsa")) return signature;
  const half = signature.length / 2;
  return Buffer.concat([mpint(signature.subarray(0, half)), mpint(signature.subarray(half))]);
}

/** The armoured SSHSIG of a text. */
export function sshSign(
  key: TestKey | TestSecurityKey,
  namespace: string,
  text: string,
  flags?: number,
): string {
  const head = [packString(namespace), packString(""), packString("sha512")];
  const signed = Buffer.concat([
    Buffer.from("SSHSIG"),
    ...head,
    packString(hash("sha512", text, "buffer")),
  ]);
  const signature = "sign" in key
    ? key.sign(signed, flags)
    : Buffer.concat([packString(key.algorithm), packString(rawSign(key, signed))]);
  const whole = Buffer.concat([
    Buffer.from("SSHSIG\0\0\0\x01"),
    packString(key.blob),
    ...head,
    packString(signature),
  ]);
  const lines = whole.toString("base64").match(/.{1,70}/g)!.join("\n");
  return `-----BEGIN SSH SIGNATURE-----\n${lines}\n-----END SSH SIGNATURE-----\n`;
}
