/** Options of `svc doctor`. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";
import { SESSION_OPTIONS } from "./session_options.ts";

const { flag } = optionRows("Options");

export const DOCTOR_OPTIONS = [
  flag(
    "fix",
    "fix",
    "Write the files that make this host's engines trust the server's registry, after " +
      "showing each and asking.",
  ),
  flag("yes", "yes", "With --fix: write without asking.", "y"),
  ...SESSION_OPTIONS,
] as const satisfies readonly AnyOption[];
