/**
 * authorized_keys files (sshd(8)): one key per line, `[options] type base64 [comment]`. Here the comment is the
 * identity, and the option `scope="…"` limits the scopes of the key's sessions. A line with an unknown option
 * that would restrict a login is an error, so that a restriction is never ignored.
 */
import { Buffer } from "node:buffer";
import { parseScopes, type Scope } from "../scope.ts";
import { parseKeyText, type SshPublicKey } from "./public_key.ts";
import { Malformed } from "./wire.ts";

export interface AuthorizedKey {
  key: SshPublicKey;
  /** The identity of the key's sessions. */
  name: string;
  scopes: readonly Scope[];
  /** Milliseconds since 1970. */
  expires?: number;
}

/** Longest file: far above any that a person keeps. */
const MAX_CHARACTERS = 4 * 1024 * 1024;
const MAX_NAME = 128;

/** Options that switch off abilities which sessions do not have. */
const NEUTRAL = new Set([
  "restrict",
  "no-agent-forwarding",
  "no-port-forwarding",
  "no-pty",
  "no-user-rc",
  "no-x11-forwarding",
]);

/** A name that a policy can match and a log line can carry. Throws `Malformed`. */
export function checkName(name: string): string {
  // deno-lint-ignore no-control-regex -- exactly the characters that break lines and logs
  if (name.length <= MAX_NAME && !/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(name)) {
    return name;
  }
  throw new Malformed(`its name has control characters, or more than ${MAX_NAME} characters`);
}

/** Splits `name="value",flag,…` from the rest at the first blank outside quotes. */
function splitOptions(line: string): { options: [string, string | undefined][]; rest: string } {
  const options: [string, string | undefined][] = [];
  let at = 0;
  for (;;) {
    const word = /^[A-Za-z0-9-]+/.exec(line.slice(at, at + 64))?.[0];
    if (word === undefined) throw new Malformed("its options cannot be read");
    at += word.length;
    let value: string | undefined;
    if (line.startsWith('="', at)) {
      value = "";
      for (at += 2; line[at] !== '"'; at++) {
        if (at >= line.length) throw new Malformed("a quote of its options is not closed");
        if (line[at] === "\\" && line[at + 1] === '"') at++;
        value += line[at];
      }
      at++;
    }
    options.push([word.toLowerCase(), value]);
    if (line[at] === ",") at++;
    else if (/[ \t]/.test(line[at] ?? "")) return { options, rest: line.slice(at).trimStart() };
    else throw new Malformed("its options are not followed by a key");
  }
}

const EXPIRY = /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)$/;

/** `YYYYMMDD[HHMM[SS]][Z]`; without Z in the system's time zone. */
function parseExpiry(text: string): number {
  const match = EXPIRY.exec(text);
  if (!match) throw new Malformed("its expiry-time is not YYYYMMDD[HHMM[SS]][Z]");
  const [, year, month, day, hour = "00", minute = "00", second = "00", zone] = match;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${zone}`);
  if (Number.isNaN(ms)) throw new Malformed("its expiry-time is not a time");
  return ms;
}

function readOptions(options: [string, string | undefined][]): Pick<AuthorizedKey, "expires"> & {
  scopes?: Scope[];
} {
  const read: ReturnType<typeof readOptions> = {};
  for (const [name, value] of options) {
    if (NEUTRAL.has(name)) continue;
    if (name === "scope" && value !== undefined && !read.scopes) {
      try {
        read.scopes = parseScopes(value, "the option scope");
      } catch (error) {
        throw new Malformed((error as Error).message.replace(/^Cannot read /, ""));
      }
    } else if (name === "expiry-time" && value !== undefined && read.expires === undefined) {
      read.expires = parseExpiry(value);
    } else throw new Malformed(`its option ${name} is not understood here`);
  }
  return read;
}

/** One line with a key. Throws `Malformed`. */
export function parseAuthorizedKey(line: string): AuthorizedKey {
  let rest = line.trim();
  let options: ReturnType<typeof readOptions> = {};
  if (!/^(ssh-|ecdsa-|sk-)[\w@.-]+[ \t]/.test(rest)) {
    const split = splitOptions(rest);
    options = readOptions(split.options);
    rest = split.rest;
  }
  const [, type, base64, comment = ""] = /^(\S+)[ \t]+(\S+)(?:[ \t]+(.*))?$/.exec(rest) ?? [];
  if (type === undefined) throw new Malformed("it is not TYPE BASE64 [COMMENT]");
  const key = parseKeyText(type, base64);
  const name = checkName(comment.trim()) || key.fingerprint;
  return { key, name, scopes: options.scopes ?? ["api"], expires: options.expires };
}

/** All keys of a file. Throws an `Error` that names the line. */
export function parseAuthorizedKeys(text: string): AuthorizedKey[] {
  if (text.length > MAX_CHARACTERS) throw new Error("it is larger than 4 MiB");
  const keys: AuthorizedKey[] = [];
  const seen = new Set<string>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#|$)/.test(line)) continue;
    try {
      const parsed = parseAuthorizedKey(line);
      if (seen.has(parsed.key.fingerprint)) throw new Malformed("its key stands there twice");
      seen.add(parsed.key.fingerprint);
      keys.push(parsed);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      throw new Error(`line ${index + 1}: ${error.message}`);
    }
  }
  return keys;
}

/** Formats a line that `parseAuthorizedKey` can read. */
export function formatAuthorizedKey({ key, name, scopes, expires }: AuthorizedKey): string {
  const options = [`scope="${scopes.join(" ")}"`];
  if (expires !== undefined) {
    const time = new Date(expires).toISOString().slice(0, 19).replace(/[-T:]/g, "");
    options.push(`expiry-time="${time}Z"`);
  }
  return `${options.join(",")} ${key.type} ${Buffer.from(key.blob).toString("base64")} ${name}`;
}
