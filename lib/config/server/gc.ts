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
  {
    key: "storageScrub",
    kind: "duration",
    env: ["SVC_STORAGE_SCRUB"],
    defaultText: "off",
    section: "Garbage collection",
    help:
      "Reads every stored blob again within this time, slowly and over and over, as a Go duration " +
      "such as 168h. What is damaged is moved aside, told in the log and by `svc storage usage`, and " +
      "fetched again where a mirror has it. Of replicas that share one bucket, set it on one.",
    check: positive,
  },
] as const satisfies readonly AnyOption[];
