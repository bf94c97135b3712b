/**
 * Who the clients with certificates are. A resumed TLS session brings back the certificate of its first
 * handshake. The TLS layer accepts that certificate, even if the first handshake found it bad or the
 * authorities have changed since. So every certificate is verified here as well, on each connection.
 */
import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { ClientCertificate } from "../../api/route.ts";
import { readCertificates } from "../../base/certificates.ts";

/** Certificates in a chain at most, both ends counted; no real chain has as many. */
const MOST_IN_CHAIN = 10;

/** Certificates that the TLS layer accepted and that are remembered; the oldest is forgotten first. */
const MOST_KNOWN = 65_536;

/** The result of examining a connection's certificate. */
export interface Examined {
  /** Absent: the client presented none. */
  readonly certificate?: ClientCertificate;
  /** The generation of authorities that the certificate was verified with. */
  readonly generation: number;
  /** The result holds until then, in milliseconds since 1970. */
  readonly until: number;
}

/** A certificate as node presents it: the members that are read here. */
interface Presented {
  raw?: Uint8Array;
  subject?: { CN?: string | string[] };
  issuerCertificate?: Presented;
}

const NONE: Examined = { generation: 0, until: Infinity };

export class ClientCertificates {
  #authorities: X509Certificate[];
  #generation = 1;
  /**
   * Fingerprints of certificates that passed a whole handshake. Only the TLS layer checks some properties (a
   * certificate's purpose, which names an authority may sign), and only in whole handshakes. So the certificate
   * of a resumed session must be in this set.
   */
  readonly #known = new Set<string>();

  /** `bundle`: PEM certificates of the authorities. Throws where they cannot be read. */
  constructor(bundle: string, private readonly now: () => number = Date.now) {
    this.#authorities = readCertificates(bundle);
  }

  /** Replaces the authorities, for open connections too. Throws as the constructor does. */
  replace(bundle: string): void {
    this.#authorities = readCertificates(bundle);
    this.#generation++;
  }

  /** The client at the other end; `before` is the earlier result for the same connection. */
  examine(socket: Socket | TLSSocket, before?: Examined): Examined {
    if (before === NONE) return before;
    if (before?.generation === this.#generation && this.now() < before.until) return before;
    if (!("getPeerCertificate" in socket)) return NONE;
    const presented = socket.getPeerCertificate(true) as unknown as Presented | undefined;
    // A closed socket no longer knows its certificate.
    if (!presented?.raw) return before ?? NONE;
    const generation = this.#generation;
    try {
      const chain = chainOf(presented);
      const until = this.#verify(chain);
      this.#checkHandshake(socket, chain[0]);
      return { certificate: { commonName: nameOf(presented), until }, generation, until };
    } catch (error) {
      // A certificate that is not valid yet may become valid: it is examined again after a second.
      const refused = (error as Error).message;
      return { certificate: { refused }, generation, until: this.now() + 1000 };
    }
  }

  /** Until when the chain is valid, in milliseconds since 1970. Throws where it is not valid now. */
  #verify(chain: readonly X509Certificate[]): number {
    let current = chain[0];
    let until = this.#end(current, "it");
    for (let n = 0; n < MOST_IN_CHAIN; n++) {
      const authority = this.#authorities.find((one) => hasSigned(one, current));
      if (authority) return Math.min(until, this.#end(authority, "its authority"));
      const next = chain.find((one) => one.ca && one !== current && hasSigned(one, current));
      if (!next) break;
      until = Math.min(until, this.#end(next, "its authority"));
      current = next;
    }
    throw new Error("none of the server's authorities for clients has signed it");
  }

  /** When the certificate expires. Throws where it is not valid now. */
  #end(certificate: X509Certificate, what: string): number {
    const now = this.now();
    const end = Date.parse(certificate.validTo);
    if (!(Date.parse(certificate.validFrom) <= now)) throw new Error(`${what} is not good yet`);
    if (!(now < end)) throw new Error(`${what} has expired`);
    return end;
  }

  #checkHandshake(socket: TLSSocket, { fingerprint256: id }: X509Certificate): void {
    if (socket.isSessionReused()) {
      if (!this.#known.has(id)) throw new Error("it did not verify when the session began");
      return;
    }
    // The signature and the times were checked above, so the TLS layer objects to something else.
    if (!socket.authorized) throw new Error("it is not one for clients, or of an old kind");
    if (this.#known.size >= MOST_KNOWN) {
      const [oldest] = this.#known;
      this.#known.delete(oldest);
    }
    this.#known.add(id);
  }
}

/** The client's certificate first, then the certificates that came with it. */
function chainOf(presented: Presented): X509Certificate[] {
  const chain: X509Certificate[] = [];
  for (let one: Presented | undefined = presented; one?.raw && chain.length < MOST_IN_CHAIN;) {
    chain.push(new X509Certificate(one.raw));
    one = one.issuerCertificate === one ? undefined : one.issuerCertificate;
  }
  return chain;
}

function hasSigned(authority: X509Certificate, certificate: X509Certificate): boolean {
  try {
    return certificate.checkIssued(authority) && certificate.verify(authority.publicKey);
  } catch {
    // The library does not know the kind of key: it signs no certificate here.
    return false;
  }
}

/** The certificate's only CommonName, which is the identity. Throws where there is none, or several. */
function nameOf({ subject }: Presented): string {
  const name = subject?.CN;
  if (typeof name === "string" && name !== "") return name;
  throw new Error("it has no CommonName, or several");
}
