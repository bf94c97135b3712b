/** The SSH wire types (RFC 4251 section 5) that keys, agents and signatures are made of. */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** `string`: length and bytes. */
export function string(value: Uint8Array | string): Buffer {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  return Buffer.concat([uint32(bytes.length), bytes]);
}

/** `mpint` of an unsigned big-endian number. */
export function mpint(value: Uint8Array): Buffer {
  let at = 0;
  while (at < value.length && value[at] === 0) at++;
  const rest = value.subarray(at);
  const negative = rest.length > 0 && (rest[0] & 0x80) !== 0;
  return string(negative ? Buffer.concat([Buffer.from([0]), rest]) : rest);
}

/** Reads fields in order; throws `upstream_failed` where the bytes end early. */
export class Reader {
  #at = 0;
  readonly #bytes: Buffer;
  readonly #what: string;

  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#what = what;
  }

  #take(length: number): Buffer {
    if (this.#at + length > this.#bytes.length) {
      throw new SvcError("upstream_failed", `Cannot read ${this.#what}: it ends too early`);
    }
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  byte(): number {
    return this.#take(1)[0];
  }

  uint32(): number {
    return this.#take(4).readUInt32BE();
  }

  string(): Buffer {
    return this.#take(this.uint32());
  }

  text(): string {
    return this.string().toString();
  }
}

/** `SHA256:…` of a public key's bytes, as `ssh-keygen -lf` prints it. */
export function fingerprint(blob: Uint8Array): string {
  return `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;
}

/** "ssh-ed25519" of a public key's bytes. */
export function keyType(blob: Uint8Array): string {
  return new Reader(blob, "public key").text();
}

/**
 * The bytes in a line of OpenSSH's public-key format (options before the type allowed); undefined for any other
 * line.
 */
export function parsePublicKey(
  line: string,
): { type: string; blob: Buffer; comment: string } | undefined {
  const match = /(?:^|\s)((?:ssh|ecdsa|sk)-[\w@.-]+)\s+([A-Za-z0-9+/]+={0,2})(?:\s+(.*))?$/.exec(
    line.trim(),
  );
  if (!match) return undefined;
  const blob = Buffer.from(match[2], "base64");
  try {
    if (keyType(blob) !== match[1]) return undefined;
  } catch {
    return undefined;
  }
  return { type: match[1], blob, comment: match[3]?.trim() ?? "" };
}
