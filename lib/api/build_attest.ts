/** Attestations of an image: `--attest`, `--provenance`, `--sbom` (buildx syntax). */
import { formatFields, parseFields } from "../base/csv_fields.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";

export type AttestSpec =
  | {
    type: "provenance";
    /** `max` also has the build's arguments, its Dockerfile and its steps. */
    mode: "min" | "max";
    /** URI that identifies the builder. */
    builderId?: string;
  }
  | { type: "sbom" };

const WHAT = "--attest";

const invalid = (text: string, why: string, help?: string) =>
  new SvcError("argument_invalid", `Cannot read ${WHAT} ${JSON.stringify(text)}: ${why}`, {
    ...(help && { help }),
  });

const PROVENANCE = [
  "type",
  "mode",
  "builder-id",
  "version",
  "disabled",
  "inline-only",
  "reproducible",
];
const SBOM = ["type", "disabled", "generator"];

/** Reads `type=provenance|sbom,…`; undefined where it is disabled. Throws `argument_invalid`. */
export function parseAttest(text: string): AttestSpec | undefined {
  const fields = new Map<string, string | undefined>(
    parseFields(text, WHAT).map(([key, value]) => [key, value]),
  );
  const type = fields.get("type");
  if (type !== "provenance" && type !== "sbom") {
    throw invalid(text, `there is no type ${JSON.stringify(type ?? "")}`, "provenance or sbom");
  }
  const known = type === "sbom" ? SBOM : PROVENANCE;
  for (const key of fields.keys()) {
    if (known.includes(key)) continue;
    throw invalid(text, `there is no field ${JSON.stringify(key)}${suggestion(key, known)}`);
  }
  const disabled = fields.get("disabled");
  if (fields.has("disabled") && !/^(0|f|false)$/i.test(disabled ?? "")) return undefined;
  if (type === "sbom") {
    if (!fields.get("generator")) return { type };
    throw invalid(text, "the packages are read by svc itself", "leave generator out");
  }
  const version = fields.get("version") ?? "v1";
  if (version !== "v1") throw invalid(text, `the version of the provenance is v1, not ${version}`);
  const mode = fields.get("mode") ?? "min";
  if (mode !== "min" && mode !== "max") throw invalid(text, "mode is min or max");
  const builderId = fields.get("builder-id");
  return { type, mode, ...(builderId && { builderId }) };
}

/** `--provenance` and `--sbom`: true, false, or fields without their type. */
export function parseAttestFlag(type: AttestSpec["type"], text: string): AttestSpec | undefined {
  if (/^(1|t|true)$/i.test(text)) return parseAttest(`type=${type}`);
  if (/^(0|f|false)$/i.test(text)) return undefined;
  return parseAttest(`type=${type},${text}`);
}

export function formatAttest(spec: AttestSpec): string {
  return formatFields([
    ["type", spec.type],
    ...spec.type === "provenance" && spec.mode === "max"
      ? [["mode", "max"] as [string, string]]
      : [],
    ...spec.type === "provenance" && spec.builderId
      ? [["builder-id", spec.builderId] as [string, string]]
      : [],
  ]);
}
