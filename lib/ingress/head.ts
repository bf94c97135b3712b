/**
 * Reads heads of HTTP/1.1 messages (RFC 9112) strictly. A head that two programs could read differently is
 * refused, so that a workload never sees another request than the one that was routed.
 */
import { type Fields, valuesOf, wordsOf } from "./fields.ts";

export type Framing =
  | { kind: "none" }
  | { kind: "length"; length: number }
  | { kind: "chunked" }
  /** The body ends with the connection; answers only. */
  | { kind: "close" };

export interface RequestHead {
  method: string;
  /** Origin form. */
  target: string;
  /** The target without its query. */
  path: string;
  /** The host as the client wrote it, perhaps with a port; empty: HTTP/1.0 without a host. */
  authority: string;
  /** The minor version of HTTP/1. */
  minor: 0 | 1;
  fields: Fields;
  framing: Exclude<Framing, { kind: "close" }>;
  /** The client waits for "100 Continue" before it sends the body. */
  expects: boolean;
  /** The protocol that the client asks to switch to. */
  upgrade?: string;
  /** True where the client may send another request. */
  keepAlive: boolean;
}

export interface ResponseHead {
  status: number;
  reason: string;
  minor: 0 | 1;
  fields: Fields;
}

/** Why a head is refused; `status` is the answer to a request with such a head. */
export class HeadError extends Error {
  constructor(message: string, readonly status = 400) {
    super(message);
  }
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const REQUEST_LINE = new RegExp(`^(${TOKEN}) ([!"$-~\\x80-\\xff]+) HTTP/1\\.([01])$`);
const OTHER_VERSION = new RegExp(`^${TOKEN} [^ ]+ HTTP/(?!1\\.[01])\\d\\.\\d$`);
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t -~\x80-\xff]*))?$/;
const NAME = new RegExp(`^${TOKEN}$`);
const VALUE = /^[\t -~\x80-\xff]*$/;
const LENGTH = /^\d{1,15}$/;

/** Bytes that are passed as arguments of one call. */
const PIECE = 4096;

/** A string in which each character is one byte. Without node's buffers, which take time at a command's start. */
export function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return text;
}

export function fromLatin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** The lines of a head, without the empty line at its end. */
function linesOf(bytes: Uint8Array): string[] {
  return latin1(bytes.subarray(0, -4)).split("\r\n");
}

/** Without a regular expression, which could take quadratic time to find the trailing blanks. */
function trimmed(text: string): string {
  let from = 0;
  let to = text.length;
  const blank = (at: number) => text[at] === " " || text[at] === "\t";
  while (from < to && blank(from)) from++;
  while (to > from && blank(to - 1)) to--;
  return text.slice(from, to);
}

function fieldsOf(lines: string[]): Fields {
  return lines.map((line) => {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon));
    // A continuation line begins with a blank, so it has no valid name.
    if (!NAME.test(name)) throw new HeadError("a header field is malformed");
    const value = trimmed(line.slice(colon + 1));
    if (!VALUE.test(value)) throw new HeadError(`the header field ${name} has control characters`);
    return [name, value];
  });
}

/** `bytes`: one head with the empty line at its end; a CR must precede each LF. */
export function parseRequestHead(bytes: Uint8Array): RequestHead {
  const [first, ...rest] = linesOf(bytes);
  const line = REQUEST_LINE.exec(first);
  if (!line) {
    if (OTHER_VERSION.test(first)) throw new HeadError("only HTTP/1.1 is spoken here", 505);
    throw new HeadError("the request line is malformed");
  }
  const [, method, given] = line;
  const minor = line[3] === "1" ? 1 : 0;
  const fields = fieldsOf(rest);
  const hosts = valuesOf(fields, "host");
  if (hosts.length > 1) throw new HeadError("there are several Host fields");
  if (hosts.length === 0 && minor === 1) throw new HeadError("there is no Host field");
  const { target, authority = hosts[0] ?? "" } = targetOf(method, given);
  const framing = requestFraming(fields, minor);
  const expects = expectation(fields, minor) && framing.kind !== "none";
  const connection = wordsOf(fields, "connection");
  const [upgrade, ...others] = valuesOf(fields, "upgrade");
  // h2c would carry requests past the routes. With a body, its bytes would mix with those of the new protocol.
  const upgrades = minor === 1 && connection.has("upgrade") && upgrade !== undefined &&
    others.length === 0 && framing.kind === "none" && NAME.test(upgrade) &&
    !/^h2c?$/i.test(upgrade);
  return {
    method,
    target,
    path: target.split("?", 1)[0],
    authority,
    minor,
    fields,
    framing,
    expects,
    ...(upgrades && { upgrade }),
    keepAlive: minor === 1 && !connection.has("close"),
  };
}

function targetOf(method: string, target: string): { target: string; authority?: string } {
  if (method === "CONNECT") throw new HeadError("CONNECT is not for a reverse proxy", 405);
  if (target.startsWith("/")) return { target };
  const absolute = /^https?:\/\/([^/?]+)(.*)$/i.exec(target);
  if (!absolute) throw new HeadError("the request's target is malformed");
  const [, authority, rest] = absolute;
  return { authority, target: rest.startsWith("/") ? rest : `/${rest}` };
}

function lengthOf(fields: Fields): number | undefined {
  const lengths = new Set(valuesOf(fields, "content-length"));
  if (lengths.size === 0) return undefined;
  const [length] = lengths;
  if (lengths.size > 1 || !LENGTH.test(length)) throw new HeadError("Content-Length is malformed");
  return Number(length);
}

/** True for a chunked body. Other encodings are refused, and so are chunks together with a length. */
function isChunked(fields: Fields, minor: 0 | 1): boolean {
  const codings = valuesOf(fields, "transfer-encoding");
  if (codings.length === 0) return false;
  if (minor === 0) throw new HeadError("HTTP/1.0 has no Transfer-Encoding");
  if (codings.length > 1 || codings[0].toLowerCase() !== "chunked") {
    throw new HeadError("the only Transfer-Encoding there is here is chunked");
  }
  if (valuesOf(fields, "content-length").length > 0) {
    throw new HeadError("there are both Transfer-Encoding and Content-Length");
  }
  return true;
}

function requestFraming(fields: Fields, minor: 0 | 1): RequestHead["framing"] {
  if (isChunked(fields, minor)) return { kind: "chunked" };
  const length = lengthOf(fields);
  return length === undefined ? { kind: "none" } : { kind: "length", length };
}

function expectation(fields: Fields, minor: 0 | 1): boolean {
  const asked = valuesOf(fields, "expect");
  if (asked.length === 0 || minor === 0) return false;
  if (asked.some((value) => value.toLowerCase() !== "100-continue")) {
    throw new HeadError("the only expectation there is is 100-continue", 417);
  }
  return true;
}

/** Applies the same rules to answers: a workload's answer must not be ambiguous either. */
export function parseResponseHead(bytes: Uint8Array): ResponseHead {
  const [first, ...rest] = linesOf(bytes);
  const line = STATUS_LINE.exec(first);
  if (!line) throw new HeadError("the status line is malformed");
  const [, minor, status, reason = ""] = line;
  return { status: Number(status), reason, minor: minor === "1" ? 1 : 0, fields: fieldsOf(rest) };
}

/** How the body of the final answer to `method` ends (RFC 9112 6.3). */
export function responseFraming(head: ResponseHead, method: string): Framing {
  const { status, fields, minor } = head;
  const chunked = isChunked(fields, minor);
  const length = lengthOf(fields);
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) {
    return { kind: "none" };
  }
  if (chunked) return { kind: "chunked" };
  return length === undefined ? { kind: "close" } : { kind: "length", length };
}

export function renderHead(first: string, fields: Fields): Uint8Array {
  let text = `${first}\r\n`;
  for (const [name, value] of fields) text += `${name}: ${value}\r\n`;
  return fromLatin1(`${text}\r\n`);
}
