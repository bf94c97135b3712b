/**
 * The heads of requests that have nothing to misread: GET and HEAD of HTTP/1.1 without a body. They are
 * most of a registry's requests, and node's own parser costs three times what this one does. Everything
 * else, in doubt too, is node's: whatever this does not fully understand it does not answer.
 */

export interface SimpleHead {
  method: "GET" | "HEAD";
  target: string;
  /** Names in lower case. */
  fields: Map<string, string>;
}

const REQUEST_LINE = /^(GET|HEAD) (\/[!-~]*) HTTP\/1\.1$/;
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[!-~](?:[\t -~]*[!-~])?)?)[ \t]*$/;

/** They announce a body, ask for another protocol or another connection. */
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

/** `text` is one head to its empty line, each character a byte. Undefined: node must look at it. */
export function parseSimpleHead(text: string): SimpleHead | undefined {
  const lines = text.split("\r\n");
  const first = REQUEST_LINE.exec(lines[0]);
  // The empty line that ends a head leaves two empty strings.
  if (!first || lines.length < 3 || lines.at(-1) !== "" || lines.at(-2) !== "") return undefined;
  const fields = new Map<string, string>();
  for (let n = 1; n < lines.length - 2; n++) {
    const field = FIELD.exec(lines[n]);
    if (!field) return undefined;
    const name = field[1].toLowerCase();
    if (SPECIAL.has(name) || fields.has(name)) return undefined;
    if (name === "connection" && field[2].toLowerCase() !== "keep-alive") return undefined;
    fields.set(name, field[2]);
  }
  if (!fields.has("host")) return undefined;
  return { method: first[1] as "GET" | "HEAD", target: first[2], fields };
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

/** What would end a field early and begin one of somebody else's. */
const UNSAFE = /[^\t -~]/;

/** The head of an answer. `pairs`: names and values in turn. Throws where one would break out of its line. */
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
