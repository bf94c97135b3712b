/** Options of `svc socks5`: data only. Each goes before its field of `conduit.socks5`. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";
import { VIA_SERVER } from "./session_options.ts";

const section = "Options";
const { flag, text } = optionRows("Options");

const profile = (field: string) => `conduit.socks5.${field} of the connection profile`;

export const SOCKS5_OPTIONS = [
  {
    ...text("listen", "listen", "ADDR", "Local address, [host]:port; port 0 is any free port."),
    defaultText: `${profile("listen")}, else 127.0.0.1:1080`,
  },
  {
    ...text(
      "suffix",
      "service-host-suffix",
      "SUFFIX",
      "Hosts with this suffix are services. The profile's resolve rules are then ignored.",
    ),
    defaultText: `${profile("service-host-suffix")}, else .svc.internal`,
  },
  {
    key: "resolve",
    kind: "list",
    flag: "resolve",
    verbatim: true,
    placeholder: "PATTERN=REPLACE",
    defaultText: profile("resolve"),
    help:
      "Rule in place of the suffix: a regular expression for host:port, and service:port with \\1 to \\9 " +
      "for its groups. The last = divides them. May be repeated; the first match wins.",
    section,
  },
  {
    ...flag(
      "bareServiceNames",
      "bare-service-names",
      "A host without a dot that names a running deployment is that service.",
    ),
    negatable: true,
    defaultText: `${profile("bare-service-names")}, else on`,
  },
  VIA_SERVER,
] as const satisfies readonly AnyOption[];
