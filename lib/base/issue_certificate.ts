/**
 * Issues X.509 certificates (RFC 5280), signed by a key of this machine. The code is our own, because
 * certificates are made in the middle of a handshake: with this runtime's TLS the handshake hangs when the
 * answer for the requested server name comes in a later turn, and the usual library (@peculiar/x509) signs
 * asynchronously.
 */
import {
  createHash,
  createPublicKey,
  type KeyObject,
  randomBytes,
  sign,
  type X509Certificate,
} from "node:crypto";
import { partsOf } from "./certificates.ts";
import {
  bitString,
  der,
  integer,
  octetString,
  oid,
  readAll,
  sequence,
  TAG,
  time,
  TRUE,
  utf8,
} from "./der.ts";

/** The issuer of a certificate. */
export interface Issuer {
  /** The issuer's Name, DER. */
  readonly subject: Uint8Array;
  /** Identifier of the issuer's key; absent: the issuer's certificate has none. */
  readonly keyId?: Uint8Array;
  readonly key: KeyObject;
}

export interface NewCertificate {
  commonName: string;
  /** DNS names and addresses; absent for an authority. */
  names?: { dns?: readonly string[]; ip?: readonly Uint8Array[] };
  publicKey: KeyObject;
  from: Date;
  to: Date;
  /** True for an authority's certificate; an authority issues only certificates that are no authorities. */
  authority?: boolean;
}

const NULL = der(0x05);

interface Algorithm {
  identifier: Uint8Array;
  /** The digest in the form of node's `sign`. */
  digest: string | null;
}

const EC: Record<string, [digest: string, oid: string]> = {
  prime256v1: ["sha256", "1.2.840.10045.4.3.2"],
  secp384r1: ["sha384", "1.2.840.10045.4.3.3"],
  secp521r1: ["sha512", "1.2.840.10045.4.3.4"],
};

/** How a key signs. Throws an `Error` for an unsupported kind of key. */
function algorithmOf({ asymmetricKeyType: kind, asymmetricKeyDetails: details }: KeyObject) {
  const ec = kind === "ec" ? EC[details?.namedCurve ?? ""] : undefined;
  if (ec) return { digest: ec[0], identifier: sequence(oid(ec[1])) } satisfies Algorithm;
  if (kind === "rsa") {
    const identifier = sequence(oid("1.2.840.113549.1.1.11"), NULL);
    return { digest: "sha256", identifier } satisfies Algorithm;
  }
  if (kind === "ed25519") {
    return { digest: null, identifier: sequence(oid("1.3.101.112")) } satisfies Algorithm;
  }
  throw new Error("its key is of a kind that cannot sign here; use RSA, ECDSA or Ed25519");
}

const spkiOf = (key: KeyObject): Uint8Array =>
  new Uint8Array(key.export({ type: "spki", format: "der" }));

/** Identifier of a key, from its bits (RFC 5280 4.2.1.2, method 1). */
function keyIdOf(key: KeyObject): Uint8Array {
  const [, bits] = readAll(readAll(spkiOf(key))[0].content);
  return new Uint8Array(createHash("sha1").update(bits.content.subarray(1)).digest());
}

const nameOf = (commonName: string) =>
  sequence(der(TAG.set, sequence(oid("2.5.4.3"), utf8(commonName))));

const extension = (id: string, value: Uint8Array, critical = false) =>
  sequence(oid(id), ...critical ? [TRUE] : [], octetString(value));

/**
 * Key usage: of a server, digital signatures; of an authority, signatures of certificates and revocation
 * lists.
 */
const USAGE = {
  leaf: bitString(Uint8Array.of(0x80), 7),
  authority: bitString(Uint8Array.of(0x06), 1),
};

function extensionsOf(request: NewCertificate, issuerKeyId?: Uint8Array): Uint8Array {
  const { authority = false, names: { dns = [], ip = [] } = {}, publicKey } = request;
  const ascii = new TextEncoder();
  const alternatives = [
    ...dns.map((name) => der(0x82, ascii.encode(name))),
    ...ip.map((address) => der(0x87, address)),
  ];
  const constraints = authority ? sequence(TRUE, integer(Uint8Array.of(0))) : sequence();
  return sequence(
    extension("2.5.29.19", constraints, true),
    extension("2.5.29.15", authority ? USAGE.authority : USAGE.leaf, true),
    ...authority ? [] : [extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1")))],
    extension("2.5.29.14", octetString(keyIdOf(publicKey))),
    ...issuerKeyId ? [extension("2.5.29.35", sequence(der(0x80, issuerKeyId)))] : [],
    ...alternatives.length > 0 ? [extension("2.5.29.17", sequence(...alternatives))] : [],
  );
}

function pemOf(bytes: Uint8Array): string {
  const lines = bytes.toBase64().match(/.{1,64}/g)!;
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

/**
 * Issues a certificate, for a server or an authority, in PEM. Throws an `Error` where the issuer's key cannot
 * sign.
 */
export function issueCertificate(request: NewCertificate, issuer: Issuer): string {
  const { digest, identifier } = algorithmOf(issuer.key);
  const toBeSigned = sequence(
    der(0xa0, integer(Uint8Array.of(2))),
    // At most 20 bytes, and not negative.
    integer(new Uint8Array(randomBytes(16))),
    identifier,
    issuer.subject,
    sequence(time(request.from), time(request.to)),
    nameOf(request.commonName),
    spkiOf(request.publicKey),
    der(0xa3, extensionsOf(request, issuer.keyId)),
  );
  const signature = sign(digest, toBeSigned, issuer.key);
  return pemOf(sequence(toBeSigned, identifier, bitString(new Uint8Array(signature))));
}

/** An authority with a self-signed certificate. */
export function issueAuthority(
  key: KeyObject,
  request: Pick<NewCertificate, "commonName" | "from" | "to">,
): string {
  const publicKey = createPublicKey(key);
  const subject = nameOf(request.commonName);
  const self = { subject, keyId: keyIdOf(publicKey), key };
  return issueCertificate({ ...request, publicKey, authority: true }, self);
}

/** The issuer for an authority's certificate and private key. Throws an `Error` where they cannot sign. */
export function issuerOf(certificate: X509Certificate, key: KeyObject): Issuer {
  algorithmOf(key);
  const { subject, keyId } = partsOf(certificate);
  return { subject, key, ...(keyId && { keyId }) };
}
