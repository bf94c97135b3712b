/** SPEC "Garbage collection". */
import { parseDuration } from "../../base/duration.ts";
import { invalid, positive } from "../checks.ts";
import type { AnyOption } from "../load.ts";

const RETENTION = /^(keep|drop)$/;

function retention(value: string, source: string): string {
  if (RETENTION.test(value)) return value;
  let ms;
  try {
    ms = parseDuration(value);
  } catch {
    throw invalid(
      source,
      `${JSON.stringify(value)} is neither keep, drop nor a duration such as 72h`,
    );
  }
  positive(ms, source);
  return value;
}

/** A checked value of SVC_GC_UNTAGGED: milliseconds where it is a duration. */
export function untaggedRetention(value: string): "keep" | "drop" | number {
  return value === "keep" || value === "drop" ? value : parseDuration(value);
}

export const GC = [
  {
    key: "gcInterval",
    kind: "duration",
    env: ["SVC_GC_INTERVAL"],
    defaultText: "disabled",
    section: "Garbage collection",
    help: "How often garbage is collected in the background, as a Go duration such as 1h.",
    check: positive,
  },
  {
    key: "gcUntagged",
    kind: "string",
    env: ["SVC_GC_UNTAGGED"],
    default: "keep",
    section: "Garbage collection",
    help: "What a collection does with manifests that no tag, index or subject holds on to: keep " +
      "them, keep them for a time (a duration since they were pushed), or drop them.",
    check: retention,
  },
] as const satisfies readonly AnyOption[];
