/** Certificates made by openssl, in a folder of the test's. */
import { join } from "node:path";

export interface Authority {
  /** Path of its certificate. */
  readonly ca: string;
  /** Issues a certificate for these names; paths of certificate and key. */
  issue(name: string, options?: IssueOptions): Promise<{ cert: string; key: string }>;
}

export interface IssueOptions {
  /** subjectAltName entries: "DNS:a", "IP:127.0.0.1". */
  names?: string[];
  /** "YYYYMMDDHHMMSSZ"; absent: from now. */
  notBefore?: string;
  notAfter?: string;
}

async function openssl(args: string[], cwd: string): Promise<void> {
  const output = await new Deno.Command("openssl", {
    args,
    cwd,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  })
    .output();
  if (!output.success) {
    throw new Error(`openssl ${args.join(" ")}: ${new TextDecoder().decode(output.stderr)}`);
  }
}

const CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/** A new CA in `folder`. Needs openssl. */
export async function makeAuthority(folder: string, name = "ca"): Promise<Authority> {
  await Deno.mkdir(join(folder, `${name}-db`));
  await Deno.writeTextFile(join(folder, `${name}-db`, "index"), "");
  await Deno.writeTextFile(
    join(folder, `${name}.cnf`),
    `[ca]\ndefault_ca=d\n[d]\ndatabase=${name}-db/index\nnew_certs_dir=${name}-db\nrand_serial=yes\n` +
      `default_md=sha256\npolicy=p\ncopy_extensions=copy\ndefault_days=30\nunique_subject=no\n` +
      `[p]\ncommonName=supplied\n`,
  );
  await openssl(
    [
      "req",
      "-x509",
      ...CURVE,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.pem`,
      "-days",
      "30",
      "-subj",
      `/CN=${name}`,
    ],
    folder,
  );
  return {
    ca: join(folder, `${name}.pem`),
    async issue(leaf, { names = [], notBefore, notAfter } = {}) {
      await openssl([
        "req",
        ...CURVE,
        ...["-keyout", `${leaf}.key`, "-out", `${leaf}.csr`, "-subj", `/CN=${leaf}`],
        ...(names.length > 0 ? ["-addext", `subjectAltName=${names.join(",")}`] : []),
        // Some extension: a certificate without any is one of version 1, which is refused.
        ...["-addext", "keyUsage=digitalSignature"],
      ], folder);
      await openssl([
        ...["ca", "-batch", "-notext", "-config", `${name}.cnf`, "-cert", `${name}.pem`],
        ...["-keyfile", `${name}.key`, "-in", `${leaf}.csr`, "-out", `${leaf}.pem`],
        ...(notBefore ? ["-startdate", notBefore] : []),
        ...(notAfter ? ["-enddate", notAfter] : []),
      ], folder);
      return { cert: join(folder, `${leaf}.pem`), key: join(folder, `${leaf}.key`) };
    },
  };
}
