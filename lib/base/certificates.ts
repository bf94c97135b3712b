/** X.509 certificates in PEM: reads them, and matches them with keys and names. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readAll, TAG } from "./der.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Reads the certificates of a PEM text. Throws an `Error` that says what is wrong. */
export function readCertificates(pem: string): X509Certificate[] {
  const blocks = pem.match(CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new Error("it holds no certificate in PEM");
  return blocks.map((block, n) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw new Error(`its certificate number ${n + 1} is damaged`);
    }
  });
}

/** Reads a private key in PEM. Throws an `Error` without any of the key's content. */
export function readPrivateKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new Error("it holds no private key in PEM, or an encrypted one");
  }
}

const SUBJECT_ALT_NAME = [0x55, 0x1d, 0x11];
const KEY_ID = [0x55, 0x1d, 0x0e];

/** Parts of a certificate that have to be copied or read exactly. */
export interface CertificateParts {
  /** The subject's Name, DER. */
  readonly subject: Uint8Array;
  /** Subject key identifier; absent: the certificate has none. */
  readonly keyId?: Uint8Array;
  /** DNS names of subjectAltName in lower case; the common name is not used. */
  readonly names: readonly string[];
}

/** The parts, by the order of TBSCertificate's fields (RFC 5280 4.1). Throws an `Error`. */
export function partsOf({ raw }: X509Certificate): CertificateParts {
  try {
    return readParts(raw);
  } catch (cause) {
    throw new Error("it is damaged", { cause });
  }
}

function readParts(raw: Uint8Array): CertificateParts {
  const [certificate] = readAll(raw);
  const [tbs] = readAll(certificate.content);
  const fields = readAll(tbs.content);
  // The version field is optional: positions count from the field after it.
  const first = fields[0].tag === 0xa0 ? 1 : 0;
  const subject = fields[first + 4];
  if (subject.tag !== TAG.sequence) throw new Error("it has no subject");
  const outer = fields.find(({ tag }) => tag === 0xa3);
  const extensions = outer ? readAll(readAll(outer.content)[0].content) : [];
  const valueOf = (id: readonly number[]): Uint8Array | undefined => {
    for (const { content } of extensions) {
      const [name, ...rest] = readAll(content);
      if (name.content.join() === id.join()) return rest.at(-1)?.content;
    }
    return undefined;
  };
  const alternatives = valueOf(SUBJECT_ALT_NAME);
  const keyId = valueOf(KEY_ID);
  return {
    subject: subject.whole,
    ...(keyId && { keyId: readAll(keyId)[0]?.content }),
    names: alternatives ? dnsNames(readAll(alternatives)[0]?.content ?? new Uint8Array()) : [],
  };
}

/** The DNS names (tag 2) of GeneralNames. */
function dnsNames(names: Uint8Array): string[] {
  return readAll(names).filter(({ tag }) => tag === 0x82)
    .map(({ content }) => new TextDecoder("latin1").decode(content).toLowerCase())
    .filter((name) => isDnsPattern(name));
}

const LABEL = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?";
const NAME = new RegExp(`^${LABEL}(\\.${LABEL})*$`);

/** True for a DNS name in lower case; false for an IP address. */
export function isDnsName(text: string): boolean {
  return text.length <= 253 && NAME.test(text) && !/(^|\.)\d+$/.test(text);
}

/** True for a DNS name, also with a leading `*.`. */
export function isDnsPattern(text: string): boolean {
  return isDnsName(text.startsWith("*.") ? text.slice(2) : text);
}

/** True where the name equals the pattern, or has one label in place of its `*` (RFC 6125 6.4.3). */
export function covers(pattern: string, name: string): boolean {
  if (pattern === name) return true;
  const dot = name.indexOf(".");
  return pattern.startsWith("*.") && dot > 0 && name.slice(dot) === pattern.slice(1);
}

/** A certificate with its chain, and the key that belongs to it. */
export interface KeyPair {
  readonly leaf: X509Certificate;
  readonly names: readonly string[];
}

/** Thrown for a bad pair; says which of the two texts is wrong. */
export class PairError extends Error {
  readonly part: "certificate" | "key";
  constructor(part: "certificate" | "key", message: string) {
    super(message);
    this.part = part;
  }
}

/** The pair, where certificate and key are valid and belong together. Throws {@linkcode PairError}. */
export function checkPair(certificate: string, key: string): KeyPair {
  const of = <T>(part: "certificate" | "key", work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw new PairError(part, (error as Error).message);
    }
  };
  const [leaf] = of("certificate", () => readCertificates(certificate));
  const { names } = of("certificate", () => partsOf(leaf));
  of("key", () => {
    if (!leaf.checkPrivateKey(readPrivateKey(key))) {
      throw new Error("it does not belong to the certificate");
    }
  });
  return { leaf, names };
}
