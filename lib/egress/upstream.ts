/** Asks a proxy for a connection: HTTP CONNECT (RFC 9110 section 9.3.6), SOCKS5 (RFC 1928, RFC 1929). */
import { Buffer } from "node:buffer";
import { SvcError } from "../base/errors.ts";
import { ahead, type Duplex } from "../wire/duplex.ts";
import type { EgressTarget } from "./policy.ts";
import { place } from "./reach.ts";

/** Bytes of a proxy's answer, at most. */
const MAX_ANSWER = 16 * 1024;

/** `stream`: to the proxy. The result is the connection behind it. */
export async function throughProxy(
  stream: Duplex,
  proxy: URL,
  target: EgressTarget,
): Promise<Duplex> {
  const { protocol } = proxy;
  if (protocol === "http:" || protocol === "https:") return await byConnect(stream, proxy, target);
  if (protocol === "socks5:" || protocol === "socks5h:" || protocol === "socks:") {
    return await bySocks(stream, proxy, target);
  }
  throw new SvcError(
    "config_invalid",
    `Cannot use the proxy for ${place(target)}: ${protocol}// is no known kind`,
    { help: "use http, https or socks5" },
  );
}

const refused = (target: EgressTarget, why: string) =>
  new SvcError("upstream_failed", `Cannot connect to ${place(target)}: the proxy ${why}`);

const login = ({ username, password }: URL) =>
  username === "" ? undefined : [username, password].map(decodeURIComponent);

async function byConnect(stream: Duplex, proxy: URL, target: EgressTarget): Promise<Duplex> {
  const authority = place(target);
  const who = login(proxy);
  const lines = [
    `CONNECT ${authority} HTTP/1.1`,
    `Host: ${authority}`,
    ...(who ? [`Proxy-Authorization: Basic ${Buffer.from(who.join(":")).toString("base64")}`] : []),
    "",
    "",
  ];
  await stream.write(new TextEncoder().encode(lines.join("\r\n")));
  let answer: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  for (;;) {
    const bytes = await stream.read();
    if (!bytes) throw refused(target, "hung up");
    answer = new Uint8Array([...answer, ...bytes]);
    const end = Buffer.from(answer.buffer).indexOf("\r\n\r\n");
    if (end < 0 && answer.length <= MAX_ANSWER) continue;
    const first = new TextDecoder().decode(answer.subarray(0, 256)).split("\r\n", 1)[0];
    const status = /^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1];
    if (end < 0 || status === undefined) throw refused(target, "speaks no HTTP");
    if (!status.startsWith("2")) throw refused(target, `answers ${status}`);
    return ahead(stream, answer.subarray(end + 4));
  }
}

/** Reads exactly `size` bytes; what came beyond them stays in `rest`. */
class Exactly {
  rest: Uint8Array = new Uint8Array(0);
  readonly #stream: Duplex;
  readonly #target: EgressTarget;

  constructor(stream: Duplex, target: EgressTarget) {
    this.#stream = stream;
    this.#target = target;
  }

  async take(size: number): Promise<Uint8Array> {
    while (this.rest.length < size) {
      const bytes = await this.#stream.read();
      if (!bytes) throw refused(this.#target, "hung up");
      this.rest = new Uint8Array([...this.rest, ...bytes]);
    }
    const taken = this.rest.subarray(0, size);
    this.rest = this.rest.subarray(size);
    return taken;
  }
}

const VERSION = 5;
const NONE = 0;
const PASSWORD = 2;

async function bySocks(stream: Duplex, proxy: URL, target: EgressTarget): Promise<Duplex> {
  const who = login(proxy);
  const bytes = new Exactly(stream, target);
  const methods = who ? [NONE, PASSWORD] : [NONE];
  await stream.write(new Uint8Array([VERSION, methods.length, ...methods]));
  const [version, method] = await bytes.take(2);
  if (version !== VERSION) throw refused(target, "speaks no SOCKS5");
  if (method === PASSWORD && who) {
    const [user, password] = who.map((text) => new TextEncoder().encode(text));
    await stream.write(new Uint8Array([1, user.length, ...user, password.length, ...password]));
    if ((await bytes.take(2))[1] !== 0) throw refused(target, "takes another password");
  } else if (method !== NONE) throw refused(target, "asks for another kind of login");
  const host = new TextEncoder().encode(target.host);
  // As a name, addresses too: the proxy reads both.
  const head = [VERSION, 1, 0, 3, host.length];
  await stream.write(new Uint8Array([...head, ...host, target.port >> 8, target.port & 255]));
  const [, reply, , type] = await bytes.take(4);
  if (reply !== 0) throw refused(target, `refuses (SOCKS5 reply ${reply})`);
  const size = type === 1 ? 4 : type === 4 ? 16 : type === 3 ? (await bytes.take(1))[0] : 0;
  await bytes.take(size + 2);
  return ahead(stream, bytes.rest);
}
