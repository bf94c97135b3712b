/** The policy of a spec, by its rules or by its script. */
import type { EgressSpec } from "../api/egress.ts";
import { SvcError } from "../base/errors.ts";
import { type EgressPolicy, egressPolicy } from "./policy.ts";

/** Throws `spec_invalid` for a pattern or a script that cannot be read. The sandbox is loaded for scripts alone. */
export async function loadEgressPolicy(egress: EgressSpec): Promise<EgressPolicy> {
  const { script, rules, default: otherwise } = egress;
  const invalid = (field: string, why: string, help: string, cause?: unknown) =>
    new SvcError("spec_invalid", `Cannot read egress.${field}: ${why}`, { cause, help });
  if (script === undefined) {
    try {
      return egressPolicy(egress);
    } catch (cause) {
      throw invalid("rules", (cause as Error).message, "correct the pattern", cause);
    }
  }
  if (rules?.length || otherwise) {
    throw invalid("script", "a script decides alone", "leave out egress.rules and egress.default");
  }
  try {
    const { pacPolicy } = await import("./pac.ts");
    return await pacPolicy(script);
  } catch (cause) {
    throw invalid("script", (cause as Error).message, "correct the script", cause);
  }
}
