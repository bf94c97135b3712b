/** Option tables of `svc gc` and `svc storage`. */
import type { AnyOption } from "../config/load.ts";

const section = "Options";

export const GC_OPTIONS = [
  {
    key: "dryRun",
    kind: "bool",
    flag: "dry-run",
    help: "Only show what a collection would remove.",
    section,
  },
  {
    key: "idle",
    kind: "string",
    flag: "idle",
    placeholder: "DURATION",
    defaultText: "1h",
    help: "How long a push may rest before what it was told exists is let go; 0s: all at once.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const STORAGE_OPTIONS = [
  {
    key: "quarantine",
    kind: "bool",
    flag: "quarantine",
    help: "With verify: move damaged blobs aside, so that they can be pushed again.",
    section,
  },
] as const satisfies readonly AnyOption[];
