/** Fields of a spec that a backend does not honour: reported, or refused where the spec is strict. */
import { SvcError } from "../base/errors.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";

/** Field → why, or true for plain "not honoured". "networks.driver" looks into each item of a list. */
export type Unhonoured = Record<string, string | true>;

const isSet = (value: unknown): boolean =>
  value !== undefined && value !== false &&
  !(Array.isArray(value) && value.length === 0) &&
  !(value !== null && typeof value === "object" && Object.keys(value).length === 0);

/** One line per field that is set: "egress: not honoured by the bare backend". */
export function unhonoured(spec: DeploySpec, fields: Unhonoured, backend: string): string[] {
  const warnings: string[] = [];
  for (const [field, reason] of Object.entries(fields)) {
    const why = reason === true ? `not honoured by the ${backend} backend` : reason;
    const [first, inner] = field.split(".");
    const value = spec[first as keyof DeploySpec] as unknown;
    if (inner === undefined) {
      if (isSet(value)) warnings.push(`${field}: ${why}`);
    } else if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) {
        if (isSet(item[inner])) warnings.push(`${first}[${index}].${inner}: ${why}`);
      }
    } else if (value && isSet((value as Record<string, unknown>)[inner])) {
      warnings.push(`${field}: ${why}`);
    }
  }
  return warnings;
}

/** Throws `unsupported` where the spec is strict and there is something to warn of. */
export function refuseIfStrict(spec: DeploySpec, warnings: string[]): void {
  if (!spec.strict || warnings.length === 0) return;
  throw new SvcError("unsupported", `Cannot deploy ${spec.name}: ${warnings.join("; ")}`, {
    help: "remove the fields, leave out strict, or choose a backend that honours them",
    detail: { warnings },
  });
}
