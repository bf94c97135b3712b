/** A caller's deployment spec on its way to the backend. Every route reads, checks and stamps a spec here. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import { SvcError } from "../base/errors.ts";
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

/**
 * Throws `spec_invalid` where the spec says how a credential is made, before anything of it is written down: the
 * values of a static source are in there.
 */
function refuseSources({ name, credentials }: DeploySpec): void {
  const index = credentials?.sources.findIndex(({ backend, config }) => backend ?? config) ?? -1;
  if (index < 0) return;
  throw new SvcError(
    "spec_invalid",
    `Cannot deploy ${name}: credentials.sources[${index}] says how it is made, which is for the ` +
      "caller alone to know",
    { help: "use `svc deploy --session`, which keeps that to itself" },
  );
}

/**
 * The spec as the backend gets it. The server sets the subject; a subject that the caller wrote is replaced. Throws
 * `spec_invalid` for what must stay with the caller.
 */
export function acceptSpec(spec: DeploySpec, { subject }: Identity): DeploySpec {
  refuseSources(spec);
  return { ...spec, origin: { ...spec.origin, subject } };
}
