/** Options of `svc socks5`: data only. Each goes before its field of `conduit.socks5`. */
import type { AnyOption } from "../config/load.ts";
import { VIA_SERVER } from "./session_options.ts";

const section = "Options";

const profile = (field: string) => `conduit.socks5.${field} of the connection profile`;

export const SOCKS5_OPTIONS = [
  {
    key: "listen",
    kind: "string",
    flag: "listen",
    placeholder: "ADDR",
    defaultText: `${profile("listen")}, else 127.0.0.1:1080`,
    help: "Local address, [host]:port; port 0 is any free port.",
    section,
  },
  {
    key: "suffix",
    kind: "string",
    flag: "service-host-suffix",
    placeholder: "SUFFIX",
    defaultText: `${profile("service-host-suffix")}, else .svc.internal`,
    help: "Hosts with this suffix are services. The profile's resolve rules are then ignored.",
    section,
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
    key: "bareServiceNames",
    kind: "bool",
    flag: "bare-service-names",
    negatable: true,
    defaultText: `${profile("bare-service-names")}, else on`,
    help: "A host without a dot that names a running deployment is that service.",
    section,
  },
  VIA_SERVER,
] as const satisfies readonly AnyOption[];
