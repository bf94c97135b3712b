/** Certificate authorities and certificates, made by openssl as an operator makes them. */
import { join } from "node:path";

export interface Pair {
  /** Paths of PEM files. */
  cert: string;
  key: string;
}

async function openssl(folder: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("openssl", { args, cwd: folder }).output();
  if (!success) throw new Error(`openssl ${args[0]}: ${new TextDecoder().decode(stderr)}`);
}

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

const pairOf = (folder: string, name: string): Pair => ({
  cert: join(folder, `${name}.pem`),
  key: join(folder, `${name}.key`),
});

/** A self-signed authority, `folder/NAME.pem` and `.key`. */
export async function makeAuthority(folder: string, name: string): Promise<Pair> {
  const { cert, key } = pairOf(folder, name);
  await openssl(
    folder,
    ...["req", "-x509", ...NEW_KEY, "-keyout", key, "-out", cert],
    ...["-days", "3", "-subj", `/CN=${name}`],
  );
  return { cert, key };
}

export interface LeafOptions {
  /** "/CN=alice"; default: the name as CommonName. */
  subject?: string;
  /** Ended a day ago. */
  expired?: boolean;
}

/** A certificate for localhost and 127.0.0.1, or a client's: it serves for both. */
export async function makeCertificate(
  folder: string,
  name: string,
  authority: Pair,
  { subject = `/CN=${name}`, expired = false }: LeafOptions = {},
): Promise<Pair> {
  const { cert, key } = pairOf(folder, name);
  const request = join(folder, `${name}.csr`);
  await openssl(
    folder,
    ...["req", ...NEW_KEY, "-keyout", key, "-out", request, "-subj", subject],
  );
  const extensions = join(folder, `${name}.ext`);
  await Deno.writeTextFile(extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  const day = (offset: number) =>
    new Date(Date.now() + offset * 86_400_000).toISOString().replace(/[-:T]|\.\d+/g, "");
  // `x509 -days` takes no past; `ca` takes dates, and wants its little database.
  const database = join(folder, `${name}.db`);
  await Deno.writeTextFile(database, "");
  const config = join(folder, `${name}.cnf`);
  await Deno.writeTextFile(
    config,
    `[ca]\ndefault_ca=d\n[d]\ndatabase=${database}\nnew_certs_dir=${folder}\nrand_serial=yes\n` +
      `default_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=optional\n` +
      `organizationName=optional\n`,
  );
  await openssl(
    folder,
    ...["ca", "-batch", "-notext", "-config", config, "-cert", authority.cert],
    ...["-keyfile", authority.key, "-in", request, "-out", cert, "-extfile", extensions],
    ...["-startdate", day(-2), "-enddate", day(expired ? -1 : 3)],
  );
  return { cert, key };
}

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
