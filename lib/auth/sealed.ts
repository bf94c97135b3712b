/** Small records that this server gives away and verifies when they come back: JSON with a MAC. */
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";

const MAC_BYTES = 32;

export class Sealer {
  readonly #key: Uint8Array;

  /** `prefix` shows the kind of record to people and to scanners for leaked secrets. */
  constructor(readonly prefix: string, key: Uint8Array) {
    this.#key = key;
  }

  #mac(payload: string): Buffer {
    return createHmac("sha256", this.#key).update(this.prefix).update(payload).digest();
  }

  seal(record: unknown): string {
    const payload = Buffer.from(JSON.stringify(record)).toString("base64url");
    return `${this.prefix}${payload}.${this.#mac(payload).toString("base64url")}`;
  }

  /** Undefined for a text that this sealer did not seal. */
  open(text: string): unknown {
    const { prefix } = this;
    const dot = text.lastIndexOf(".");
    if (!text.startsWith(prefix) || dot < prefix.length) return undefined;
    const payload = text.slice(prefix.length, dot);
    const mac = Buffer.from(text.slice(dot + 1), "base64url");
    if (mac.length !== MAC_BYTES || !timingSafeEqual(mac, this.#mac(payload))) return undefined;
    return JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
  }
}
