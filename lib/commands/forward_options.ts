/** Options of `svc port-forward`: data only. */
import type { AnyOption } from "../config/load.ts";
import { VIA_SERVER } from "./session_options.ts";

export const PORT_FORWARD_OPTIONS = [
  {
    key: "address",
    kind: "list",
    flag: "address",
    placeholder: "ADDRESS",
    defaultText: "127.0.0.1",
    help:
      "Local address to listen on where a port names none; several are separated by commas. localhost is " +
      "127.0.0.1, and ::1 where this machine has it.",
    section: "Options",
  },
  VIA_SERVER,
] as const satisfies readonly AnyOption[];
