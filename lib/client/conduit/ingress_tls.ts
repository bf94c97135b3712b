/** TLS of emulated ingress: the name in the client's hello (SNI) selects the certificate. */
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import { isDnsName } from "../../base/certificates.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";
import type { CertificateRule, CertificateRules, PemPair } from "./certificates.ts";
import type { IngressAuthority } from "./ingress_authority.ts";
import { PacedStream } from "./tls_pace.ts";

/** Milliseconds that a client may take for its handshake. */
const HANDSHAKE_MS = 20_000;

/**
 * Certificates that are kept. A client that asks for ever more names costs this machine a signature for each.
 */
const MAX_LEAVES = 256;

/** The certificate for clients that send no name, or an invalid one: those that connect by an address. */
const NAMELESS = { names: ["localhost"], ip: [Uint8Array.of(127, 0, 0, 1)] };

function contextOf({ certificate, key }: PemPair): SecureContext {
  return createSecureContext({ cert: certificate, key, minVersion: "TLSv1.2" });
}

interface Leaf {
  context: SecureContext;
  until: number;
}

/** The certificate of each name: a rule's, or a leaf of the authority. */
export class ServerContexts {
  readonly #rules: () => CertificateRules;
  readonly #authority: IngressAuthority;
  readonly #ofRules = new WeakMap<CertificateRule, SecureContext>();
  /** Leaves by name, the least recently used first. */
  readonly #leaves = new Map<string, Leaf>();

  /** `rules` is called for each connection: the files may have changed. */
  constructor(rules: () => CertificateRules, authority: IngressAuthority) {
    this.#rules = rules;
    this.#authority = authority;
  }

  /** The context for the name that a client sent; "" where it sent none. */
  of(sent: string): SecureContext {
    const name = sent.toLowerCase();
    const known = isDnsName(name);
    const rule = known ? this.#rules().select(name) : undefined;
    if (!rule) return this.#leaf(known ? name : "");
    const context = this.#ofRules.get(rule) ?? contextOf(rule.pem());
    this.#ofRules.set(rule, context);
    return context;
  }

  #leaf(name: string): SecureContext {
    let leaf = this.#leaves.get(name);
    this.#leaves.delete(name);
    if (!leaf || Date.now() >= leaf.until) {
      const { until, ...pem } = name === ""
        ? this.#authority.issue(NAMELESS.names, NAMELESS.ip)
        : this.#authority.issue([name]);
      leaf = { context: contextOf(pem), until };
    }
    this.#leaves.set(name, leaf);
    if (this.#leaves.size > MAX_LEAVES) this.#leaves.delete(this.#leaves.keys().next().value!);
    return leaf.context;
  }
}

/**
 * The stream inside the TLS of a connection; undefined where the client does not get through the handshake.
 * HTTP/1.1 is all that is offered (ALPN). Resetting the stream closes the connection.
 */
export function acceptTls(
  raw: Socket,
  contexts: ServerContexts,
  { handshakeMs = HANDSHAKE_MS }: { handshakeMs?: number } = {},
): Promise<Duplex | undefined> {
  const paced = new PacedStream(socketDuplex(raw));
  const socket = new TLSSocket(paced.stream as Socket, {
    isServer: true,
    ALPNProtocols: ["http/1.1"],
    SNICallback(name, done) {
      try {
        done(null, contexts.of(name));
      } catch (error) {
        done(error as Error);
      }
    },
  });
  let ended = false;
  socket.once("end", () => ended = true);
  const reset = () => {
    // Where both directions have ended the connection is closed in good order, and sent data still arrives.
    // Otherwise it is reset below (RST).
    if (ended && socket.writableFinished) raw.destroy();
    socket.destroy();
    paced.stream.destroy();
  };
  return new Promise((resolve) => {
    const fail = () => {
      clearTimeout(timer);
      reset();
      resolve(undefined);
    };
    const timer = setTimeout(fail, handshakeMs);
    socket.on("error", fail);
    paced.stream.on("error", fail);
    raw.once("close", fail);
    const ended = () => setImmediate(fail);
    paced.stream.once("end", ended);
    socket.once("secure", () => {
      clearTimeout(timer);
      raw.off("close", fail);
      paced.stream.off("end", ended);
      resolve(insideOf(socket, paced, reset));
    });
  });
}

function insideOf(socket: TLSSocket, paced: PacedStream, reset: () => void): Duplex {
  const inside = socketDuplex(socket);
  return {
    ...inside,
    async read() {
      if (socket.readableLength === 0) paced.hungry();
      try {
        return await inside.read();
      } finally {
        paced.fed();
      }
    },
    reset,
  };
}
