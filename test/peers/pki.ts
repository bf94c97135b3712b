/** Certificate authorities and certificates, made by openssl as an operator makes them. */
import { join } from "node:path";

/** Paths of PEM files. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

export interface IssueOptions {
  /** "/CN=alice"; default: the name as CommonName. */
  subject?: string;
  /** subjectAltName entries; default: those of this machine's loopback interface. */
  names?: readonly string[];
  /** extendedKeyUsage: "clientAuth", "serverAuth"; default: for both. */
  usage?: string;
  /** "YYYYMMDDHHMMSSZ"; default: from now, for a month. */
  notBefore?: string;
  notAfter?: string;
}

export interface Authority extends Pair {
  /** Issues `folder/NAME.pem` and `.key`; what that signs in turn is nothing to trust. */
  issue(name: string, options?: IssueOptions): Promise<Authority>;
  /** An authority under this one. */
  subordinate(
    name: string,
    options?: Pick<IssueOptions, "notBefore" | "notAfter">,
  ): Promise<Authority>;
}

const DAYS = "30";
const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

async function openssl(folder: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("openssl", {
    args,
    cwd: folder,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`openssl ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

const pairOf = (folder: string, name: string): Pair => ({
  cert: join(folder, `${name}.pem`),
  key: join(folder, `${name}.key`),
});

/** A self-signed authority, `folder/NAME.pem` and `.key`. Needs openssl. */
export async function makeAuthority(folder: string, name = "ca"): Promise<Authority> {
  const { cert, key } = pairOf(folder, name);
  await openssl(
    folder,
    ...["req", "-x509", ...NEW_KEY, "-keyout", key, "-out", cert],
    ...["-days", DAYS, "-subj", `/CN=${name}`],
  );
  return authorityOf(folder, name);
}

function authorityOf(folder: string, name: string): Authority {
  const own = pairOf(folder, name);
  // `x509 -days` takes no past; `ca` takes dates, and wants its little database.
  const config = (leaf: string) =>
    `[ca]\ndefault_ca=d\n[d]\ndatabase=${leaf}.db\nnew_certs_dir=.\nrand_serial=yes\n` +
    `default_md=sha256\npolicy=p\ndefault_days=${DAYS}\nunique_subject=no\n` +
    `[p]\ncommonName=optional\norganizationName=optional\n`;
  const sign = async (
    leaf: string,
    { subject = `/CN=${leaf}`, extensions, dates = [] }: {
      subject?: string;
      extensions: string[];
      dates?: string[];
    },
  ) => {
    const { cert, key } = pairOf(folder, leaf);
    const files = {
      [`${leaf}.db`]: "",
      [`${leaf}.cnf`]: config(leaf),
      [`${leaf}.ext`]: `${extensions.join("\n")}\n`,
    };
    for (const [file, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(folder, file), text);
    }
    const request = ["-keyout", key, "-out", `${leaf}.csr`, "-subj", subject];
    await openssl(folder, "req", ...NEW_KEY, ...request);
    await openssl(
      folder,
      ...["ca", "-batch", "-notext", "-config", `${leaf}.cnf`, "-extfile", `${leaf}.ext`],
      ...["-cert", own.cert, "-keyfile", own.key, "-in", `${leaf}.csr`, "-out", cert, ...dates],
    );
  };
  return {
    ...own,
    async issue(leaf, { subject, names = LOOPBACK, usage = BOTH, notBefore, notAfter } = {}) {
      await sign(leaf, {
        subject,
        extensions: [`subjectAltName=${names.join(",")}`, `extendedKeyUsage=${usage}`],
        dates: datesOf({ notBefore, notAfter }),
      });
      return authorityOf(folder, leaf);
    },
    async subordinate(leaf, dates = {}) {
      await sign(leaf, {
        extensions: ["basicConstraints=critical,CA:true", "keyUsage=keyCertSign"],
        dates: datesOf(dates),
      });
      return authorityOf(folder, leaf);
    },
  };
}

function datesOf({ notBefore, notAfter }: Pick<IssueOptions, "notBefore" | "notAfter">): string[] {
  return [
    ...notBefore ? ["-startdate", notBefore] : [],
    ...notAfter ? ["-enddate", notAfter] : [],
  ];
}

const LOOPBACK = ["DNS:localhost", "IP:127.0.0.1"];
const BOTH = "serverAuth,clientAuth";

/** A time long ago, for certificates whose time is over. */
export const EXPIRED = { notBefore: "20200101000000Z", notAfter: "20200201000000Z" };

/** True where openssl is there; under CI=true it has to be. */
export function hasOpenssl(): boolean {
  try {
    return new Deno.Command("openssl", { args: ["version"] }).outputSync().success;
  } catch (error) {
    if (Deno.env.get("CI") === "true") {
      throw new Error("these tests need openssl", { cause: error });
    }
    return false;
  }
}
