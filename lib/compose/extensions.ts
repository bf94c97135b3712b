/** `x-svc-…`: fields of a deployment spec that the Compose specification has no words for. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import type { LoadedProject } from "./project.ts";
import type { Service } from "./service.ts";
import { placeOf } from "./refusal.ts";

/** Extension → field. A service's block replaces the project's. */
const EXTENSIONS = {
  "x-svc-ingress": "ingress",
  "x-svc-egress": "egress",
  "x-svc-telemetry": "telemetry",
  "x-svc-agent-forward": "agentForward",
  "x-svc-shells": "shells",
  "x-svc-credentials": "credentials",
  "x-svc-hub": "hub",
} as const satisfies Record<string, keyof DeploySpec>;

/** Members whose keys are names of the user's, not fields. */
const NAMED = ["annotations", "attributes", "proxies", "config"];

/** "class_name" → "className", in the whole block. */
function camelCase(value: unknown, isField = true): unknown {
  if (Array.isArray(value)) return value.map((item) => camelCase(item, isField));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      isField ? key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : key,
      camelCase(inner, isField && !NAMED.includes(key)),
    ]),
  );
}

function checkKeys(loaded: LoadedProject, block: object, path: readonly string[]): void {
  for (const key of Object.keys(block)) {
    if (!key.startsWith("x-svc-") || key in EXTENSIONS) continue;
    throw new SvcError(
      "spec_invalid",
      `Cannot use ${placeOf(loaded, [...path, key])}: unknown extension${
        suggestion(key, Object.keys(EXTENSIONS))
      }`,
      { help: "correct its name" },
    );
  }
}

export function extensionFields(
  loaded: LoadedProject,
  name: string,
  service: Service,
): Partial<DeploySpec> {
  checkKeys(loaded, loaded.project, []);
  checkKeys(loaded, service, ["services", name]);
  const blocks = { ...loaded.project, ...service } as Record<string, unknown>;
  const fields: Record<string, unknown> = {};
  for (const [extension, field] of Object.entries(EXTENSIONS)) {
    if (blocks[extension] !== undefined) fields[field] = camelCase(blocks[extension]);
  }
  return fields as Partial<DeploySpec>;
}
