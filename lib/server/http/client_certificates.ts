/**
 * Who the clients with certificates are. A TLS session that is resumed brings back the certificate of its
 * first handshake, and the TLS layer takes it for a good one whatever was found then, and whatever
 * authorities there are now. So every certificate is verified here too, on each connection.
 */
import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { ClientCertificate } from "../../api/route.ts";
import { readCertificates } from "../../base/certificates.ts";

/** Certificates from a client's to the authority's, both counted; more than any real chain has. */
const MOST_IN_CHAIN = 10;

/** Certificates that the TLS layer has found good; the oldest goes. */
const MOST_KNOWN = 65_536;

/** What was found of a connection. */
export interface Examined {
  /** Absent: the client presented none. */
  readonly certificate?: ClientCertificate;
  /** Of the authorities that it was held against. */
  readonly generation: number;
  /** Milliseconds since 1970 from which it has to be looked at anew. */
  readonly until: number;
}

/** As node has it; the members that are read here. */
interface Presented {
  raw?: Uint8Array;
  subject?: { CN?: string | string[] };
  issuerCertificate?: Presented;
}

const NONE: Examined = { generation: 0, until: Infinity };

export class ClientCertificates {
  #authorities: X509Certificate[];
  #generation = 1;
  /** By fingerprint. What only the TLS layer looks at (what a certificate is for, which names an authority
   * may give) is looked at in whole handshakes, so a resumed session's has to have passed one. */
  readonly #known = new Set<string>();

  /** `bundle`: PEM certificates of the authorities. Throws where they cannot be read. */
  constructor(bundle: string, private readonly now: () => number = Date.now) {
    this.#authorities = readCertificates(bundle);
  }

  /** Other authorities from now on, for open connections too. Throws as the constructor does. */
  replace(bundle: string): void {
    this.#authorities = readCertificates(bundle);
    this.#generation++;
  }

  /** Who is at the other end; `before` is what was found of the same connection the last time. */
  examine(socket: Socket | TLSSocket, before?: Examined): Examined {
    if (before === NONE) return before;
    if (before?.generation === this.#generation && this.now() < before.until) return before;
    if (!("getPeerCertificate" in socket)) return NONE;
    const presented = socket.getPeerCertificate(true) as unknown as Presented | undefined;
    // A socket that has closed knows none any more.
    if (!presented?.raw) return before ?? NONE;
    const generation = this.#generation;
    try {
      const chain = chainOf(presented);
      const until = this.#verify(chain);
      this.#checkHandshake(socket, chain[0]);
      return { certificate: { commonName: nameOf(presented), until }, generation, until };
    } catch (error) {
      // Time may make it a good one, if it was presented too early.
      const refused = (error as Error).message;
      return { certificate: { refused }, generation, until: this.now() + 1000 };
    }
  }

  /** Until when the first of the chain is good, in milliseconds since 1970. Throws where it is not now. */
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

  /** The end of a certificate that is good now. */
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
    // It has been seen not to be the signature, nor the time.
    if (!socket.authorized) throw new Error("it is not one for clients, or of an old kind");
    if (this.#known.size >= MOST_KNOWN) {
      const [oldest] = this.#known;
      this.#known.delete(oldest);
    }
    this.#known.add(id);
  }
}

/** The client's certificate first, then what came with it. */
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
    // A key of a kind that the library does not know signs nothing here.
    return false;
  }
}

/** The one name that is the identity. Throws where there is none. */
function nameOf({ subject }: Presented): string {
  const name = subject?.CN;
  if (typeof name === "string" && name !== "") return name;
  throw new Error("it has no CommonName, or several");
}
