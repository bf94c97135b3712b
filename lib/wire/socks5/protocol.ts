/** The SOCKS5 handshake on the server's side, before bytes are forwarded (RFC 1928). */
import type { Duplex } from "../duplex.ts";

/** RFC 1928, section 6. */
export const REPLY = {
  succeeded: 0,
  failed: 1,
  notAllowed: 2,
  networkUnreachable: 3,
  hostUnreachable: 4,
  refused: 5,
  timedOut: 6,
  commandNotSupported: 7,
  addressTypeNotSupported: 8,
} as const;

export type Reply = typeof REPLY[keyof typeof REPLY];

const VERSION = 5;
const NO_AUTHENTICATION = 0;
const NAME_AND_PASSWORD = 2;
const NO_METHOD = 0xff;
const CONNECT = 1;
const COMMANDS: Record<number, string> = { 2: "BIND", 3: "UDP ASSOCIATE" };

/** The answer to a request. Its bound address is all zeros: a CONNECT client has no use for it. */
export function replyBytes(reply: Reply): Uint8Array {
  return new Uint8Array([VERSION, reply, 0, 1, 0, 0, 0, 0, 0, 0]);
}

export type Handshake =
  /** The host as the client sent it, IPv6 without brackets; `ahead`: bytes that came after the request. */
  | { kind: "connect"; host: string; port: number; ahead: Uint8Array }
  /** The answer to send before closing, and the reason. */
  | { kind: "refused"; answer: Uint8Array; why: string }
  /** The client closed the connection in the middle of the handshake. */
  | { kind: "gone" };

class Gone extends Error {}

class ByteReader {
  #bytes: Uint8Array = new Uint8Array(0);
  readonly #stream: Duplex;

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** Exactly `size` bytes; what one read gave beyond them is kept. */
  async take(size: number): Promise<Uint8Array> {
    while (this.#bytes.length < size) {
      const more = await this.#stream.read();
      if (!more) throw new Gone();
      const both = new Uint8Array(this.#bytes.length + more.length);
      both.set(this.#bytes);
      both.set(more, this.#bytes.length);
      this.#bytes = both;
    }
    const taken = this.#bytes.subarray(0, size);
    this.#bytes = this.#bytes.subarray(size);
    return taken;
  }

  async byte(): Promise<number> {
    return (await this.take(1))[0];
  }

  rest(): Uint8Array {
    return this.#bytes;
  }
}

const refused = (answer: Uint8Array, why: string): Handshake => ({ kind: "refused", answer, why });
const refusedRequest = (reply: Reply, why: string) => refused(replyBytes(reply), why);

function httpAnswer(): Uint8Array {
  const text = "This port speaks SOCKS5, not HTTP: use it as a SOCKS5 proxy.\n";
  const head = `HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n`;
  return new TextEncoder().encode(`${head}content-length: ${text.length}\r\n\r\n${text}`);
}

/** The refusal for a client that speaks another protocol, which its first byte shows. */
function otherProtocol(first: number): Handshake {
  if (first === 4) {
    // "Request rejected or failed" of SOCKS4.
    const answer = new Uint8Array([0, 0x5b, 0, 0, 0, 0, 0, 0]);
    return refused(answer, "it speaks SOCKS4; set the client to SOCKS5, best with remote names");
  }
  if (/[A-Za-z]/.test(String.fromCharCode(first))) {
    return refused(httpAnswer(), "it speaks HTTP; set this address as a SOCKS5 proxy instead");
  }
  const none = new Uint8Array(0);
  return first === 0x16
    ? refused(none, "it speaks TLS; the proxy itself is spoken to in the clear")
    : refused(none, "it does not speak SOCKS5");
}

async function negotiate(stream: Duplex, bytes: ByteReader): Promise<Handshake | undefined> {
  const version = await bytes.byte();
  if (version !== VERSION) return otherProtocol(version);
  const methods = await bytes.take(await bytes.byte());
  if (!methods.includes(NO_AUTHENTICATION)) {
    const answer = new Uint8Array([VERSION, NO_METHOD]);
    return refused(
      answer,
      methods.includes(NAME_AND_PASSWORD)
        ? "it insists on a name and a password (RFC 1929), and this proxy takes none; leave them out"
        : "it offers no method of authentication but ones that this proxy does not have",
    );
  }
  await stream.write(new Uint8Array([VERSION, NO_AUTHENTICATION]));
  return undefined;
}

/** "2001:db8:0:0:0:0:0:1", as a URL shortens it. */
function ipv6(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const groups = Array.from({ length: 8 }, (_, i) => view.getUint16(2 * i).toString(16));
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

/** The address of a request; undefined for an unknown address type. */
async function readHost(bytes: ByteReader): Promise<string | undefined> {
  switch (await bytes.byte()) {
    case 1:
      return (await bytes.take(4)).join(".");
    case 3:
      return String.fromCharCode(...await bytes.take(await bytes.byte()));
    case 4:
      return ipv6(await bytes.take(16));
    default:
      return undefined;
  }
}

async function readRequest(bytes: ByteReader): Promise<Handshake> {
  const [version, command] = await bytes.take(3);
  if (version !== VERSION) return refusedRequest(REPLY.failed, "its request is none of SOCKS5");
  if (command !== CONNECT) {
    const name = COMMANDS[command] ?? `command ${command}`;
    return refusedRequest(REPLY.commandNotSupported, `it asks for ${name}; there is only CONNECT`);
  }
  const host = await readHost(bytes);
  if (host === undefined) {
    return refusedRequest(
      REPLY.addressTypeNotSupported,
      "its request has no known type of address",
    );
  }
  const port = new DataView((await bytes.take(2)).slice().buffer).getUint16(0);
  // Errors show the host to a person. Names beyond ASCII have an ASCII form (punycode).
  if (!/^[\x21-\x7e]+$/.test(host)) {
    return refusedRequest(REPLY.hostUnreachable, "the host it asks for is not a name");
  }
  if (port === 0) return refusedRequest(REPLY.failed, "it asks for port 0");
  return { kind: "connect", host: host.replace(/^\[(.*)\]$/, "$1"), port, ahead: bytes.rest() };
}

/** Reads up to the end of the request, and answers the greeting. Throws where the stream breaks. */
export async function handshake(stream: Duplex): Promise<Handshake> {
  const bytes = new ByteReader(stream);
  try {
    return await negotiate(stream, bytes) ?? await readRequest(bytes);
  } catch (error) {
    if (error instanceof Gone) return { kind: "gone" };
    throw error;
  }
}
