/** Options of `svc daemon status` and `stop`. */
import type { AnyOption } from "../../config/load.ts";

export const DAEMON_OPTIONS = [
  {
    key: "output",
    kind: "string",
    flag: "output",
    short: "o",
    default: "auto",
    choices: ["auto", "plain", "fancy", "json"],
    placeholder: "MODE",
    help: "json: one object, for programs.",
    section: "Options",
  },
] as const satisfies readonly AnyOption[];
