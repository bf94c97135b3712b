/** The rules of `conduit.ingress.certificates` (SPEC.md "IngressCertificate"): which certificate is a host's. */
import { checkPair, covers, PairError } from "../../base/certificates.ts";
import { fileTrouble, SvcError } from "../../base/errors.ts";
import { watchFiles } from "../../base/watch_files.ts";
import type { Conduit } from "../profile/types.ts";

export type CertificateSettings = NonNullable<NonNullable<Conduit["ingress"]>["certificates"]>;

/** PEM texts. The key is a secret: only the TLS layer and one request may carry it, never a message. */
export interface PemPair {
  certificate: string;
  key: string;
}

/** Bytes of a PEM file: chains and keys have a few thousand. */
const MAX_PEM = 1 << 20;

/** Throws `config_invalid` naming the field; never says what is in the file. */
export function fieldError(field: string, why: string, cause?: unknown): SvcError {
  return new SvcError("config_invalid", `Cannot use ${field}: ${why}`, {
    cause,
    help: "correct the field in the connection profile, or the file that it names",
  });
}

/** A PEM file that a field names. */
export async function readPemFile(path: string, field: string): Promise<string> {
  try {
    using file = await Deno.open(path);
    const bytes = new Uint8Array(MAX_PEM + 1);
    let size = 0;
    for (let more: number | null = 0; more !== null && size < bytes.length; size += more ?? 0) {
      more = await file.read(bytes.subarray(size));
    }
    if (size > MAX_PEM) throw new Error("it is too long for a PEM file");
    return new TextDecoder().decode(bytes.subarray(0, size));
  } catch (error) {
    throw fieldError(field, `${path}: ${fileTrouble(error)}`);
  }
}

/** A warning for a key file that others than its owner may read; undefined: there is none. */
export async function keyFileWarning(path: string, field: string): Promise<string | undefined> {
  if (Deno.build.os === "windows") return undefined;
  const { mode } = await Deno.stat(path);
  return (mode! & 0o077) === 0
    ? undefined
    : `${field}: ${path} can be read by others; make it private: chmod 600 ${path}`;
}

/** A warning for a certificate that has expired or is not valid yet; undefined: there is none. */
export function timeWarning(
  { validFrom, validTo }: { validFrom: string; validTo: string },
  field: string,
  now: number,
): string | undefined {
  if (now >= Date.parse(validTo)) return `${field}: the certificate has expired: ${validTo}`;
  if (now < Date.parse(validFrom)) return `${field}: the certificate is not good yet: ${validFrom}`;
  return undefined;
}

/** One rule whose files were read and are valid. */
export class CertificateRule {
  /** `conduit.ingress.certificates[0]` */
  readonly field: string;
  /** Names and wildcards that select it, in lower case. */
  readonly patterns: readonly string[];
  readonly certificate: string;
  readonly #key: string;

  constructor(field: string, patterns: readonly string[], { certificate, key }: PemPair) {
    this.field = field;
    this.patterns = patterns;
    this.certificate = certificate;
    this.#key = key;
  }

  pem(): PemPair {
    return { certificate: this.certificate, key: this.#key };
  }
}

/** The rules in their order. */
export class CertificateRules {
  readonly all: readonly CertificateRule[];

  constructor(all: readonly CertificateRule[]) {
    this.all = all;
  }

  /**
   * The rule of a host, or of a wildcard that is itself a rule's pattern. An exact pattern beats a wildcard,
   * a longer wildcard a shorter one, an earlier rule a later one.
   */
  select(host: string): CertificateRule | undefined {
    const name = host.toLowerCase();
    let best: { rule: CertificateRule; rank: number } | undefined;
    for (const rule of this.all) {
      for (const pattern of rule.patterns) {
        if (!covers(pattern, name)) continue;
        const rank = pattern === name ? Infinity : pattern.length;
        if (!best || rank > best.rank) best = { rule, rank };
      }
    }
    return best?.rule;
  }
}

async function loadRule(
  settings: CertificateSettings[number],
  field: string,
  warn: (text: string) => void,
): Promise<CertificateRule> {
  const certificate = await readPemFile(settings.certificate, `${field}.certificate`);
  const key = await readPemFile(settings.key, `${field}.key`);
  const pair = (() => {
    try {
      return checkPair(certificate, key);
    } catch (error) {
      const part = error instanceof PairError ? error.part : "certificate";
      throw fieldError(`${field}.${part}`, `${settings[part]}: ${(error as Error).message}`);
    }
  })();
  const pattern = settings.pattern?.toLowerCase();
  if (pair.names.length === 0) {
    throw fieldError(
      `${field}.certificate`,
      `${settings.certificate}: it has no DNS name in subjectAltName`,
    );
  }
  if (pattern !== undefined && !pair.names.some((name) => covers(name, pattern))) {
    const names = pair.names.join(", ");
    throw fieldError(`${field}.pattern`, `${pattern} is none of the certificate's names: ${names}`);
  }
  const told = [
    timeWarning(pair.leaf, `${field}.certificate`, Date.now()),
    await keyFileWarning(settings.key, `${field}.key`),
  ];
  for (const text of told) if (text !== undefined) warn(text);
  const patterns = pattern === undefined ? pair.names : [pattern];
  return new CertificateRule(field, patterns, { certificate, key });
}

/**
 * Reads the rules' files. Throws `config_invalid` naming the field; calls `warn` for what works but should be
 * corrected.
 */
export async function loadCertificates(
  settings: CertificateSettings,
  warn: (text: string) => void,
): Promise<CertificateRules> {
  const rules: CertificateRule[] = [];
  for (const [i, rule] of settings.entries()) {
    rules.push(await loadRule(rule, `conduit.ingress.certificates[${i}]`, warn));
  }
  return new CertificateRules(rules);
}

export interface WatchedCertificates extends Disposable {
  /** The rules of the last valid files. */
  readonly rules: CertificateRules;
  /** Checks the files now; otherwise they are checked within a second. */
  check(): Promise<void>;
}

/** As {@linkcode loadCertificates}; changed files are read again, invalid ones are warned of and ignored. */
export async function watchCertificates(
  settings: CertificateSettings,
  { warn, everyMs }: { warn: (text: string) => void; everyMs?: number },
): Promise<WatchedCertificates> {
  const watch = await watchFiles(settings.flatMap(({ certificate, key }) => [certificate, key]), {
    everyMs,
    onChange: async () => {
      try {
        rules = await loadCertificates(settings, warn);
      } catch (error) {
        // Certificate and key are two files: between the two writes they do not match.
        warn(`${(error as Error).message}; the last good certificates stay in use`);
      }
    },
  });
  let rules: CertificateRules;
  try {
    rules = await loadCertificates(settings, warn);
  } catch (error) {
    watch[Symbol.dispose]();
    throw error;
  }
  return {
    get rules() {
      return rules;
    },
    check: () => watch.check(),
    [Symbol.dispose]: () => watch[Symbol.dispose](),
  };
}
