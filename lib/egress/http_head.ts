/** The head of a request to an HTTP proxy (RFC 9110 section 7, RFC 9112 section 3.2). */
import { splitHostPort } from "../base/host_port.ts";
import type { Duplex } from "../wire/duplex.ts";
import { egressHost, type EgressTarget } from "./policy.ts";

/** Bytes of a head, at most. */
const MAX_HEAD = 64 * 1024;
const END = "\r\n\r\n";

export interface ProxyRequest {
  target: EgressTarget;
  /** What the host gets before the rest of the connection; absent: a tunnel (CONNECT). */
  forward?: Uint8Array;
  /** Bytes that came after the head. */
  rest: Uint8Array;
}

/** Latin-1: each byte is one character, so that nothing in a head changes on its way. */
const decode = (bytes: Uint8Array) => String.fromCharCode(...bytes);
const encode = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));

/** The head without its end, and what came after it; undefined where the client went or says too much. */
async function readHead(stream: Duplex) {
  let text = "";
  for (;;) {
    const bytes = await stream.read();
    if (!bytes) return undefined;
    const from = Math.max(0, text.length - END.length);
    for (let at = 0; at < bytes.length; at += 8192) text += decode(bytes.subarray(at, at + 8192));
    const end = text.indexOf(END, from);
    if (end >= 0) return { head: text.slice(0, end), rest: encode(text.slice(end + END.length)) };
    if (text.length > MAX_HEAD) return undefined;
  }
}

/** Of this connection alone, or set anew. */
const DROPPED = new Set([
  "host",
  "connection",
  "proxy-connection",
  "proxy-authorization",
  "keep-alive",
  "te",
  "upgrade",
]);

/** Undefined where a line is none of HTTP's: such a line may mean something else to the next reader. */
function fieldLines(lines: readonly string[]): string[] | undefined {
  const kept: string[] = [];
  for (const line of lines) {
    const name = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\r\n\0]*$/.exec(line)?.[1];
    if (name === undefined) return undefined;
    if (!DROPPED.has(name.toLowerCase())) kept.push(line);
  }
  return kept;
}

function tunnel(authority: string): EgressTarget | undefined {
  const { host = "", port } = splitHostPort(authority) ?? {};
  const known = egressHost(host);
  return known === undefined || !port ? undefined : { host: known, port };
}

/** Undefined: it is no request to a proxy. */
export async function readProxyRequest(stream: Duplex): Promise<ProxyRequest | undefined> {
  const read = await readHead(stream);
  if (!read) return undefined;
  const [first, ...lines] = read.head.split("\r\n");
  const [, method, where] = /^([A-Z]+) ([\x21-\x7e]+) HTTP\/1\.[01]$/.exec(first) ?? [];
  const fields = fieldLines(lines);
  if (method === undefined || !fields) return undefined;
  if (method === "CONNECT") {
    const target = tunnel(where);
    return target && { target, rest: read.rest };
  }
  const url = URL.canParse(where) ? new URL(where) : undefined;
  const host = url && egressHost(url.hostname);
  if (url?.protocol !== "http:" || host === undefined) return undefined;
  // One request for each connection: a second one may be for another host, whose route is another one.
  const head = [
    `${method} ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    ...fields,
    "Connection: close",
  ];
  return {
    target: { host, port: Number(url.port || 80) },
    forward: encode(head.join("\r\n") + END),
    rest: read.rest,
  };
}

/** An answer of the proxy's own. */
export function proxyAnswer(status: string, text = ""): Uint8Array {
  const body = text === "" ? "" : `${text}\n`;
  const bytes = new TextEncoder().encode(body);
  const head = status.startsWith("200")
    ? `HTTP/1.1 ${status}\r\n\r\n`
    : `HTTP/1.1 ${status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ` +
      `${bytes.length}\r\nConnection: close\r\n\r\n`;
  return new Uint8Array([...new TextEncoder().encode(head), ...bytes]);
}
