/** The profile's certificates of a deploy to a cluster whose ingress takes them. */
import type { Client } from "../client/client.ts";
import type { SpecBody } from "../client/deployments.ts";
import type { Target } from "../client/resolve.ts";

/** Adds the certificates of `conduit.ingress.certificates` for the spec's hosts. */
export async function withCertificates(
  body: SpecBody,
  { target, client, warn }: { target: Target; client: Client; warn: (text: string) => void },
): Promise<SpecBody> {
  const rules = target.settings.conduit?.ingress?.certificates ?? [];
  if (rules.length === 0) return body;
  const [{ parseDeploySpec, validateDeploySpec }, { managedCertificates }] = await Promise.all([
    import("../api/deploy_spec_parse.ts"),
    import("../client/conduit/managed_certificates.ts"),
  ]);
  const spec = "text" in body
    ? parseDeploySpec(body.text, { file: body.source })
    : validateDeploySpec(body.spec);
  const info = () => client.json("GET /info");
  const certificates = await managedCertificates({ rules, spec, target, info, warn });
  if (!certificates) return body;
  const files = "files" in body ? body.files : undefined;
  return { name: spec.name, spec, certificates, ...(files && { files }) };
}
