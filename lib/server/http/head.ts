/**
 * Request heads that cannot be misread: GET and HEAD of HTTP/1.1 without a body, and bodies of uploads. GET and
 * HEAD are most of a registry's requests, and node's own parser takes more time for them
 * (docs/decisions/listener.md). Every other request, and every doubtful one, is left to node.
 */

import { isHost } from "./request.ts";

export interface SimpleHead {
  method: string;
  target: string;
  /** Names in lower case. */
  fields: Map<string, string>;
}

/** The head of a request with a body. */
export interface BodyHead extends SimpleHead {
  /** Bytes of the body; undefined: it comes in chunks. */
  length: number | undefined;
  /** The client waits for "100 Continue". */
  awaitsContinue: boolean;
}

/** Without backslashes, which some programs read as slashes. */
const REQUEST_LINE = /^(GET|HEAD) (\/[!-[\]-~]*) HTTP\/1\.1$/;
const BODY_LINE = /^(PATCH|POST|PUT) (\/[!-[\]-~]*) HTTP\/1\.1$/;
const LENGTH = /^(?:0|[1-9]\d{0,14})$/;
/** The value's blanks are trimmed afterwards: a pattern that finds them could take quadratic time. */
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~]*)$/;

/** Fields that announce a body, another protocol or another treatment of the connection. */
const SPECIAL = new Set([
  "content-length",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const SPECIAL_BESIDE_BODY = new Set(
  [...SPECIAL].filter((name) => !["content-length", "expect", "transfer-encoding"].includes(name)),
);

/** `text` is one head with its empty line, each character a byte. Undefined: the request is left to node. */
export function parseSimpleHead(text: string): SimpleHead | undefined {
  return parse(text, REQUEST_LINE, SPECIAL);
}

/** The head of a request whose body length is stated exactly once. Undefined: the request is left to node. */
export function parseBodyHead(text: string): BodyHead | undefined {
  const head = parse(text, BODY_LINE, SPECIAL_BESIDE_BODY);
  if (!head) return undefined;
  const { fields } = head;
  const coding = fields.get("transfer-encoding");
  const length = fields.get("content-length");
  if (coding !== undefined && length !== undefined) return undefined;
  if (coding !== undefined && coding.toLowerCase() !== "chunked") return undefined;
  if (length !== undefined && !LENGTH.test(length)) return undefined;
  const expect = fields.get("expect")?.toLowerCase();
  if (expect !== undefined && expect !== "100-continue") return undefined;
  return {
    ...head,
    length: coding === undefined ? Number(length ?? 0) : undefined,
    awaitsContinue: expect !== undefined,
  };
}

function parse(text: string, line: RegExp, special: ReadonlySet<string>): SimpleHead | undefined {
  const lines = text.split("\r\n");
  const first = line.exec(lines[0]);
  // Splitting at the line ends leaves two empty strings for the empty line at a head's end.
  if (!first || lines.length < 3 || lines.at(-1) !== "" || lines.at(-2) !== "") return undefined;
  const fields = new Map<string, string>();
  for (let n = 1; n < lines.length - 2; n++) {
    const field = FIELD.exec(lines[n]);
    if (!field) return undefined;
    const name = field[1].toLowerCase();
    if (special.has(name) || fields.has(name)) return undefined;
    const value = field[2].trim();
    if (name === "connection" && value.toLowerCase() !== "keep-alive") return undefined;
    fields.set(name, value);
  }
  if (!isHost(fields.get("host") ?? "")) return undefined;
  return { method: first[1], target: first[2], fields };
}

const REASONS: Record<number, string> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  206: "Partial Content",
  304: "Not Modified",
  307: "Temporary Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  416: "Range Not Satisfiable",
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

let second = 0;
let date = "";

function dateNow(): string {
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    date = new Date(now * 1000).toUTCString();
  }
  return date;
}

/** Characters that could end a field early and begin a forged one. */
const UNSAFE = /[^\t -~]/;

/** The head of an answer. `pairs`: names and values in turn. Throws for a name or value with an unsafe character. */
export function renderHead(status: number, pairs: readonly string[], extra: string): string {
  let head = `HTTP/1.1 ${status} ${REASONS[status] ?? "Status"}\r\n`;
  for (let n = 0; n < pairs.length; n += 2) {
    const line = `${pairs[n]}: ${pairs[n + 1]}`;
    if (UNSAFE.test(line)) {
      throw new TypeError(`the header field ${pairs[n]} has characters that no field may have`);
    }
    head += `${line}\r\n`;
  }
  return `${head}${extra}date: ${dateNow()}\r\n\r\n`;
}
