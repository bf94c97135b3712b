/** A caller's deployment spec on its way to the backend: read, checked, stamped; the same for every route. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { HostCertificate } from "../api/ingress_certificates.ts";
import { SvcError } from "../base/errors.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import type { Identity } from "./route.ts";

/** Bytes of a deployment spec: far more than any real one has. */
export const MAX_SPEC = 4 * 1024 * 1024;

/** YAML (or JSON in it); `source` is the text's name in errors. Throws `spec_invalid`. */
export async function parseSpecText(text: string, source?: string): Promise<DeploySpec> {
  const { parseDeploySpec } = await import("../api/deploy_spec_parse.ts");
  return parseDeploySpec(text, { file: source });
}

/** Parsed JSON. Throws `spec_invalid`. */
export async function checkSpec(value: unknown): Promise<DeploySpec> {
  const { validateDeploySpec } = await import("../api/deploy_spec_parse.ts");
  return validateDeploySpec(value);
}

/** JSON text. Throws `spec_invalid`. */
export async function parseSpecJson(text: string): Promise<DeploySpec> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SvcError(
      "spec_invalid",
      `Cannot read deployment spec: ${(cause as Error).message}`,
      { cause, help: "send JSON, or YAML with content type application/yaml" },
    );
  }
  return await checkSpec(value);
}

/** What the backend is given: the subject is the server's to say, whatever the caller wrote. */
export function acceptSpec(spec: DeploySpec, { subject }: Identity): DeploySpec {
  return { ...spec, origin: { ...spec.origin, subject } };
}

/** Throws `unsupported` where certificates came for a backend that has nowhere to put them. */
export function requireCertificates(
  { caps, name }: DeployBackend,
  certificates: readonly HostCertificate[] | undefined,
): void {
  if (certificates === undefined || caps.ingressCertificates) return;
  throw new SvcError(
    "unsupported",
    `Cannot deploy with certificates: the ingress of the ${name} backend is no cluster's`,
    { help: "deploy without them: conduits and tunnels end TLS on their own" },
  );
}
