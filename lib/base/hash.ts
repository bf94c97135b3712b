/** Digests without loading node:crypto at start, which takes longer than a short command. */
import type { Hash } from "node:crypto";

let create: ((algorithm: string) => Hash) | undefined;

/** `createHash` of node:crypto; the module is loaded at the first call. */
export function createHash(algorithm: string): Hash {
  create ??= process.getBuiltinModule("node:crypto").createHash;
  return create(algorithm);
}

/** sha256 in hex, by the engine's own means. */
export async function sha256(text: string): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}
