/** SPEC "Garbage collection". */
import { parseDuration } from "../../base/duration.ts";
import { SvcError } from "../../base/errors.ts";
import { invalid, positive } from "../checks.ts";
import { optionTable } from "../table.ts";

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

/** A checked value of SVC_GC_UNTAGGED; a duration in milliseconds. */
export function untaggedRetention(value: string): "keep" | "drop" | number {
  return value === "keep" || value === "drop" ? value : parseDuration(value);
}

function checkLease({ gcLease, gcInterval }: { gcLease?: string; gcInterval?: number }): void {
  if (gcLease === undefined || gcInterval !== undefined) return;
  throw new SvcError(
    "config_invalid",
    "Cannot use SVC_GC_LEASE: it gates collections on a schedule, and SVC_GC_INTERVAL is not set",
    { help: "set SVC_GC_INTERVAL too, such as 1h" },
  );
}

export const GC = optionTable([
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
    help:
      "What a collection does with manifests that no tag, index or subject refers to: keep, drop, or a " +
      "duration for which they are kept after their push.",
    check: retention,
  },
  {
    key: "storageScrub",
    kind: "duration",
    env: ["SVC_STORAGE_SCRUB"],
    defaultText: "off",
    section: "Garbage collection",
    help:
      "Time in which every stored blob is read once, slowly and over and over: a Go duration such as " +
      "168h. A damaged blob is moved aside, shown in the log and by `svc storage usage`, and fetched " +
      "again where a mirror has it. Where replicas share a bucket, set this on one of them.",
    check: positive,
  },
  {
    key: "gcLease",
    kind: "string",
    env: ["SVC_GC_LEASE"],
    section: "Garbage collection",
    help: "Leader gate: namespace/name, or kube. Requires SVC_GC_INTERVAL.",
    absent: "the leader gate of garbage collection",
  },
], checkLease);
