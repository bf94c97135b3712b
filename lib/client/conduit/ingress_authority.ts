/**
 * The authority behind emulated ingress (SPEC.md "Ingress (inside conduit)"): it signs certificates for the
 * names that no rule has. Configured by `ca-file` and `ca-key-file`, else made once and kept.
 */
import {
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  type X509Certificate,
} from "node:crypto";
import { promisify } from "node:util";
import { checkPair, PairError, readCertificates, readPrivateKey } from "../../base/certificates.ts";
import { SvcError } from "../../base/errors.ts";
import { ensureDir, exists, removeTree, temporaryName, writeFileAtomic } from "../../base/fs.ts";
import {
  issueAuthority,
  issueCertificate,
  type Issuer,
  issuerOf,
} from "../../base/issue_certificate.ts";
import { join } from "../../base/path.ts";
import {
  fieldError,
  keyFileWarning,
  type PemPair,
  readPemFile,
  timeWarning,
} from "./certificates.ts";

const DAY_MS = 24 * 3_600_000;
/** Days that an authority is valid: longer than a machine is likely to trust it. */
const AUTHORITY_DAYS = 3650;
/** Days that a leaf certificate is valid: it exists in memory only and has to outlast a session. */
const LEAF_DAYS = 30;
/** Certificates begin this much earlier: clocks of browsers in virtual machines lag. */
const BEFORE_MS = DAY_MS;

const CERTIFICATE_FIELD = "conduit.ingress.ca-file";
const KEY_FIELD = "conduit.ingress.ca-key-file";

const newKeyPair = promisify(generateKeyPair);
const newKey = async () => (await newKeyPair("ec", { namedCurve: "P-256" })).privateKey;
const pemOf = (key: KeyObject) => key.export({ type: "pkcs8", format: "pem" }) as string;

export interface Leaf extends PemPair {
  /** Milliseconds since 1970; from then on a new leaf is issued. */
  readonly until: number;
}

export class IngressAuthority {
  /** Path of the certificate that clients have to trust. */
  readonly path: string;
  /** True where svc generated the authority: a client trusts it only if somebody told it to. */
  readonly generated: boolean;
  readonly #issuer: Issuer;
  /** Intermediate certificates between a leaf and the certificate that clients trust, PEM. */
  readonly #chain: string;
  readonly #ends: number;
  readonly #key: KeyObject;

  private constructor(
    path: string,
    generated: boolean,
    { certificates, issuer, key }: {
      certificates: readonly X509Certificate[];
      issuer: Issuer;
      key: KeyObject;
    },
  ) {
    this.path = path;
    this.generated = generated;
    this.#issuer = issuer;
    this.#chain = certificates.map((one) => `${one.toString().trim()}\n`).join("");
    this.#ends = Date.parse(certificates[0].validTo);
    this.#key = key;
  }

  /** Throws an `Error` for a certificate that is not an authority's, or a key that cannot sign. */
  static async of(path: string, generated: boolean, pem: PemPair): Promise<IngressAuthority> {
    const certificates = readCertificates(pem.certificate);
    if (!certificates[0].ca) throw new Error("it is not the certificate of an authority (CA)");
    const issuer = issuerOf(certificates[0], readPrivateKey(pem.key));
    return new IngressAuthority(path, generated, { certificates, issuer, key: await newKey() });
  }

  /** Issues a certificate for DNS names. All leaves share one key, which exists in this process only. */
  issue(names: readonly string[], ip: readonly Uint8Array[] = [], now = Date.now()): Leaf {
    const to = Math.max(Math.min(now + LEAF_DAYS * DAY_MS, this.#ends), now + DAY_MS);
    const [first] = names;
    const certificate = issueCertificate({
      // The field holds at most 64 characters, and clients check the alternative names instead.
      commonName: first.length <= 64 ? first : "svc ingress",
      names: { dns: names, ip },
      publicKey: createPublicKey(this.#key),
      from: new Date(now - BEFORE_MS),
      to: new Date(to),
    }, this.#issuer);
    return {
      certificate: certificate + this.#chain,
      key: pemOf(this.#key),
      until: to - DAY_MS / 2,
    };
  }
}

/** `ca-file` and `ca-key-file`. Throws `config_invalid` naming the field. */
export async function configuredAuthority(
  files: { certificate: string; key: string },
  warn: (text: string) => void,
): Promise<IngressAuthority> {
  const certificate = await readPemFile(files.certificate, CERTIFICATE_FIELD);
  const key = await readPemFile(files.key, KEY_FIELD);
  try {
    const { leaf } = checkPair(certificate, key);
    const authority = await IngressAuthority.of(files.certificate, false, { certificate, key });
    const told = [
      timeWarning(leaf, CERTIFICATE_FIELD, Date.now()),
      await keyFileWarning(files.key, KEY_FIELD),
    ];
    for (const text of told) if (text !== undefined) warn(text);
    return authority;
  } catch (error) {
    const [field, path] = error instanceof PairError && error.part === "key"
      ? [KEY_FIELD, files.key]
      : [CERTIFICATE_FIELD, files.certificate];
    throw fieldError(field, `${path}: ${(error as Error).message}`, error);
  }
}

/** Writes a new authority, both files or none. Where two svc do this at once, the first one's files stay. */
async function generate(folder: string): Promise<void> {
  const key = await newKey();
  const now = Date.now();
  const certificate = issueAuthority(key, {
    // Trust stores show this name: it tells the authorities of two machines apart.
    commonName: `svc ingress CA ${crypto.randomUUID().slice(0, 8)}`,
    from: new Date(now - BEFORE_MS),
    to: new Date(now + AUTHORITY_DAYS * DAY_MS),
  });
  const made = temporaryName(folder);
  try {
    await ensureDir(made, 0o700);
    await writeFileAtomic(join(made, "ca.key"), pemOf(key), { mode: 0o600 });
    await writeFileAtomic(join(made, "ca.pem"), certificate, { mode: 0o644 });
    await Deno.rename(made, folder).catch(async (error) => {
      if (!await exists(join(folder, "ca.pem"))) throw error;
    });
  } finally {
    await removeTree(made);
  }
}

/**
 * The authority that is stored in the folder; made on first use. Throws `config_invalid` where the stored files
 * are damaged or expired, or others may read the key.
 */
export async function generatedAuthority(folder: string): Promise<IngressAuthority> {
  try {
    if (!await exists(folder)) await generate(folder);
    return await readGenerated(folder);
  } catch (cause) {
    throw new SvcError(
      "config_invalid",
      `Cannot use the ingress authority in ${folder}: ${(cause as Error).message}`,
      {
        cause,
        help: "remove that folder: a new authority is made, which clients have to be told to trust",
      },
    );
  }
}

async function readGenerated(folder: string): Promise<IngressAuthority> {
  const [path, keyPath] = [join(folder, "ca.pem"), join(folder, "ca.key")];
  const certificate = await Deno.readTextFile(path);
  const key = await Deno.readTextFile(keyPath);
  // Whoever has the key can impersonate any site to a client that trusts the authority.
  if (await keyFileWarning(keyPath, "")) throw new Error("others may read its key");
  const { leaf } = checkPair(certificate, key);
  if (Date.now() >= Date.parse(leaf.validTo)) throw new Error("its time is over");
  return await IngressAuthority.of(path, true, { certificate, key });
}
