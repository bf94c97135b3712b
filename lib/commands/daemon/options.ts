/** Options of `svc daemon status` and `stop`. */
import type { AnyOption } from "../../config/load.ts";
import { optionRows } from "../../config/option_rows.ts";

const { text } = optionRows("Options");

export const DAEMON_OPTIONS = [
  {
    ...text("output", "output", "MODE", "json: one object, for programs.", "o"),
    default: "auto",
    choices: ["auto", "plain", "fancy", "json"],
  },
] as const satisfies readonly AnyOption[];
