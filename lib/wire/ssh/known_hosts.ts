/** known_hosts files as sshd(8) describes them: patterns, hashed names, markers. */
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import { keyType } from "./packing.ts";

export interface KnownHost {
  /** Line number, from 1. */
  line: number;
  marker?: "revoked" | "cert-authority";
  /** True for "host" or "[host]:port". */
  matches(name: string): boolean;
  type: string;
  key: Buffer;
}

/** Matches `*` and `?` as a shell does. Not a regular expression, so that no pattern is slow. */
export function wildcard(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  let star = -1;
  let mark = 0;
  while (t < text.length) {
    // A `*` in the pattern is a wildcard, also where the text has a `*`.
    if (pattern[p] === "*") {
      star = p++;
      mark = t;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++mark;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

function hashedMatch(salt: Buffer, hash: Buffer) {
  return (name: string): boolean => {
    const mac = createHmac("sha1", salt).update(name).digest();
    return mac.length === hash.length && timingSafeEqual(mac, hash);
  };
}

function matcher(field: string): ((name: string) => boolean) | undefined {
  if (field.startsWith("|")) {
    const match = /^\|1\|([A-Za-z0-9+/]+={0,2})\|([A-Za-z0-9+/]+={0,2})$/.exec(field);
    return match
      ? hashedMatch(Buffer.from(match[1], "base64"), Buffer.from(match[2], "base64"))
      : undefined;
  }
  const patterns = field.toLowerCase().split(",").filter((pattern) => pattern !== "");
  if (patterns.length === 0) return undefined;
  return (name) => {
    let found = false;
    for (const pattern of patterns) {
      const negative = pattern.startsWith("!");
      if (!wildcard(negative ? pattern.slice(1) : pattern, name)) continue;
      if (negative) return false;
      found = true;
    }
    return found;
  };
}

function parseLine(text: string, line: number): KnownHost | undefined {
  const words = text.trim().split(/[ \t]+/);
  let marker: KnownHost["marker"];
  if (words[0].startsWith("@")) {
    const name = words.shift()!.slice(1);
    if (name !== "revoked" && name !== "cert-authority") return undefined;
    marker = name;
  }
  const [hosts, type, base64] = words;
  if (!hosts || hosts.startsWith("#") || !type || !base64) return undefined;
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return undefined;
  const matches = matcher(hosts);
  const key = Buffer.from(base64, "base64");
  try {
    if (!matches || keyType(key) !== type) return undefined;
  } catch {
    return undefined; // shorter than its own length says
  }
  return { line, ...(marker && { marker }), matches, type, key };
}

/** Lines that cannot be parsed are ignored, as in OpenSSH: they make no key trusted. */
export function parseKnownHosts(text: string): KnownHost[] {
  return text.split(/\r?\n/).flatMap((line, i) => parseLine(line, i + 1) ?? []);
}

/** The name of a host in the file. */
export function hostName(host: string, port: number): string {
  const lower = host.toLowerCase();
  return port === 22 ? lower : `[${lower}]:${port}`;
}

export type Verdict =
  | { kind: "known" }
  | { kind: "new" }
  /** The file has another key for the host. */
  | { kind: "changed"; line: number }
  | { kind: "revoked"; line: number };

/** Judges a key by the entries. A revoked key is refused whatever other entries say. */
export function judge(entries: readonly KnownHost[], name: string, key: Uint8Array): Verdict {
  const of = entries.filter((entry) => entry.matches(name));
  const same = (entry: KnownHost) => entry.key.equals(key);
  const revoked = of.find((entry) => entry.marker === "revoked" && same(entry));
  if (revoked) return { kind: "revoked", line: revoked.line };
  const plain = of.filter((entry) => entry.marker === undefined);
  if (plain.some(same)) return { kind: "known" };
  return plain.length > 0 ? { kind: "changed", line: plain[0].line } : { kind: "new" };
}

/** Types of the host's known keys: preferred in the handshake, so that the server presents a known key. */
export function knownTypes(entries: readonly KnownHost[], name: string): string[] {
  const types = entries.filter((entry) => !entry.marker && entry.matches(name))
    .map((entry) => entry.type);
  return [...new Set(types)];
}
