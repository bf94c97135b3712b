/** Certificates that come with a deployment. No error or log line ever contains their text. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { HostCertificate } from "../../api/ingress_certificates.ts";
import { checkDeliveredFiles } from "../../api/delivered_files.ts";
import { SvcError } from "../../base/errors.ts";
import type { DeployRequest } from "../../deploy/services.ts";
import { asciiHost } from "../../ingress/host_name.ts";
import { checkSpec } from "../accept_spec.ts";

/** Certificates of one deployment; far more than any has hosts. */
const MOST = 256;

const malformed = (why: string) =>
  new SvcError("argument_invalid", `Cannot read the deployment's certificates: ${why}`, {
    help: "use `svc deploy` of the server's own version",
  });

function fieldsOf(value: unknown, at: string, names: readonly string[]): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw malformed(`${at}: expected an object`);
  }
  const other = Object.keys(value).find((name) => !names.includes(name));
  if (other !== undefined) throw malformed(`${at}: a field that is none of ${names.join(", ")}`);
  return value as Record<string, unknown>;
}

/** The host in its normal form; "*.example.com" stays as written. */
function normalized(host: string): string | undefined {
  const wildcard = host.startsWith("*.");
  const name = asciiHost(wildcard ? host.slice(2) : host);
  return name && (wildcard ? `*.${name}` : name);
}

async function checkOne(
  value: unknown,
  at: string,
  wanted: ReadonlySet<string>,
): Promise<HostCertificate> {
  const { hosts, certificate, key } = fieldsOf(value, at, ["hosts", "certificate", "key"]);
  if (!Array.isArray(hosts) || hosts.length === 0 || !hosts.every((one) => wanted.has(one))) {
    throw malformed(`${at}.hosts: expected hosts of the spec's ingress.hosts`);
  }
  if (typeof certificate !== "string") throw malformed(`${at}.certificate: expected PEM`);
  if (typeof key !== "string") throw malformed(`${at}.key: expected PEM`);
  const { checkPair, covers, PairError } = await import("../../base/certificates.ts");
  const names = (() => {
    try {
      return checkPair(certificate, key).names;
    } catch (error) {
      const part = error instanceof PairError ? `.${error.part}` : "";
      throw malformed(`${at}${part}: ${(error as Error).message}`);
    }
  })();
  const bare = (hosts as string[]).find((host) => !names.some((name) => covers(name, host)));
  if (bare === undefined) return { hosts: hosts as string[], certificate, key };
  throw malformed(`${at}: ${bare} is none of the certificate's names: ${names.join(", ")}`);
}

/**
 * The body of an apply with certificates or files. Throws `spec_invalid` for the spec, `argument_invalid` for
 * everything else.
 */
export async function parseCertified(
  text: string,
): Promise<{ spec: DeploySpec } & Pick<DeployRequest, "certificates" | "files">> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message would quote the text.
    throw malformed("the body is not JSON");
  }
  const names = ["spec", "certificates", "files"];
  const { spec: wanted, certificates, files } = fieldsOf(value, "the body", names);
  const spec = await checkSpec(wanted);
  return {
    spec,
    ...(files !== undefined && { files: checkDeliveredFiles(files) }),
    // A body with neither has lost its certificates.
    ...((certificates !== undefined || files === undefined) && {
      certificates: await checkCertificates(certificates, spec),
    }),
  };
}

/** Throws `argument_invalid` where `value` is not a list of certificates for the spec's hosts. */
export async function checkCertificates(
  certificates: unknown,
  spec: DeploySpec,
): Promise<HostCertificate[]> {
  if (!Array.isArray(certificates) || certificates.length === 0 || certificates.length > MOST) {
    throw malformed(`certificates: expected a list of 1 to ${MOST}`);
  }
  const wanted = new Set(
    (spec.ingress?.hosts ?? []).flatMap((host) => normalized(host.trim()) ?? []),
  );
  const checked: HostCertificate[] = [];
  for (const [i, one] of certificates.entries()) {
    checked.push(await checkOne(one, `certificates[${i}]`, wanted));
  }
  const all = checked.flatMap(({ hosts }) => hosts);
  const twice = all.find((host, i) => all.indexOf(host) !== i);
  if (twice !== undefined) throw malformed(`certificates: ${twice} has two`);
  return checked;
}
