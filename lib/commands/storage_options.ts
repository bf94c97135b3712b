/** Option tables of `svc gc` and `svc storage`. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const { flag, text } = optionRows("Options");

export const GC_OPTIONS = [
  flag("dryRun", "dry-run", "Only show what a collection would remove."),
  {
    ...text(
      "idle",
      "idle",
      "DURATION",
      "How long a push may rest before what it was told exists is let go; 0s: all at once.",
    ),
    defaultText: "1h",
  },
] as const satisfies readonly AnyOption[];

export const STORAGE_OPTIONS = [
  flag(
    "quarantine",
    "quarantine",
    "With verify: move damaged blobs aside, so that they can be pushed again.",
  ),
] as const satisfies readonly AnyOption[];
