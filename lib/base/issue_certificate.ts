/**
 * New X.509 certificates (RFC 5280), signed by a key of this machine. Our own, because they are made in the
 * middle of a handshake: this runtime's TLS never goes on where the answer to the name that was asked for
 * comes in a later turn, and the library there is (@peculiar/x509) signs in another one.
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

/** Who signs. */
export interface Issuer {
  /** Its Name, DER. */
  readonly subject: Uint8Array;
  /** Of its key; absent: its certificate has none. */
  readonly keyId?: Uint8Array;
  readonly key: KeyObject;
}

export interface NewCertificate {
  commonName: string;
  /** DNS names and addresses; an authority has none. */
  names?: { dns?: readonly string[]; ip?: readonly Uint8Array[] };
  publicKey: KeyObject;
  from: Date;
  to: Date;
  /** An authority, of certificates that are none. */
  authority?: boolean;
}

const NULL = der(0x05);

interface Algorithm {
  identifier: Uint8Array;
  /** As node's `sign` has it. */
  digest: string | null;
}

const EC: Record<string, [digest: string, oid: string]> = {
  prime256v1: ["sha256", "1.2.840.10045.4.3.2"],
  secp384r1: ["sha384", "1.2.840.10045.4.3.3"],
  secp521r1: ["sha512", "1.2.840.10045.4.3.4"],
};

/** How a key signs. Throws an `Error` for a kind that certificates are not signed with here. */
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

/** RFC 5280 4.2.1.2, method 1: of the key's bits. */
function keyIdOf(key: KeyObject): Uint8Array {
  const [, bits] = readAll(readAll(spkiOf(key))[0].content);
  return new Uint8Array(createHash("sha1").update(bits.content.subarray(1)).digest());
}

const nameOf = (commonName: string) =>
  sequence(der(TAG.set, sequence(oid("2.5.4.3"), utf8(commonName))));

const extension = (id: string, value: Uint8Array, critical = false) =>
  sequence(oid(id), ...critical ? [TRUE] : [], octetString(value));

/** Digital signatures; or certificates' and revocation lists'. */
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

/** Certificate in PEM, for servers or an authority's. Throws an `Error` where the issuer's key cannot sign. */
export function issueCertificate(request: NewCertificate, issuer: Issuer): string {
  const { digest, identifier } = algorithmOf(issuer.key);
  const toBeSigned = sequence(
    der(0xa0, integer(Uint8Array.of(2))),
    // 20 bytes at most, and not negative.
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

/** An authority whose certificate it signs itself. */
export function issueAuthority(
  key: KeyObject,
  request: Pick<NewCertificate, "commonName" | "from" | "to">,
): string {
  const publicKey = createPublicKey(key);
  const subject = nameOf(request.commonName);
  const self = { subject, keyId: keyIdOf(publicKey), key };
  return issueCertificate({ ...request, publicKey, authority: true }, self);
}

/** The authority of a certificate, with its private key. Throws an `Error` where that cannot sign. */
export function issuerOf(certificate: X509Certificate, key: KeyObject): Issuer {
  algorithmOf(key);
  const { subject, keyId } = partsOf(certificate);
  return { subject, key, ...(keyId && { keyId }) };
}
