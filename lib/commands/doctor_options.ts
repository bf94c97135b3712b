/** Options of `svc doctor`. */
import type { AnyOption } from "../config/load.ts";
import { SESSION_OPTIONS } from "./session_options.ts";

export const DOCTOR_OPTIONS = [
  {
    key: "fix",
    kind: "bool",
    flag: "fix",
    help:
      "Write the files that make this host's engines trust the server's registry, after showing " +
      "each and asking.",
    section: "Options",
  },
  {
    key: "yes",
    kind: "bool",
    flag: "yes",
    short: "y",
    help: "With --fix: write without asking.",
    section: "Options",
  },
  ...SESSION_OPTIONS,
] as const satisfies readonly AnyOption[];
