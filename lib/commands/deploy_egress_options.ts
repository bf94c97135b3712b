/** Options of `svc deploy` for the workload's own connections. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const section = "Egress";
const { text } = optionRows("Egress");

export const DEPLOY_EGRESS_OPTIONS = [
  text(
    "egress",
    "egress",
    "MODE",
    "How the workload's connections go out: env tells it this machine's proxy variables; " +
      "proxy gives it a proxy on its loopback, its only way out; transparent leads all its " +
      "TCP connections there.",
  ),
  {
    key: "egressRoutes",
    kind: "list",
    flag: "egress-route",
    verbatim: true,
    placeholder: "PATTERN=ROUTE",
    help:
      "Route of hosts (*.example.com), addresses (10.0.0.0/8) or ports (:443): client (this machine dials, " +
      "in a session), gateway (the server), cluster (straight out) or deny. The first that matches decides; " +
      "may be repeated, before the spec's own rules.",
    section,
  },
  {
    ...text("egressDefault", "egress-default", "ROUTE", "Route of what no rule matches."),
    defaultText: "the spec's, else cluster",
  },
  text(
    "egressPac",
    "egress-pac",
    "FILE",
    "Proxy auto-configuration script that decides in place of rules.",
  ),
] as const satisfies readonly AnyOption[];
