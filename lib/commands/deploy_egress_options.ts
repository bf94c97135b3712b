/** Options of `svc deploy` for the workload's own connections. */
import type { AnyOption } from "../config/load.ts";

const section = "Egress";

export const DEPLOY_EGRESS_OPTIONS = [
  {
    key: "egress",
    kind: "string",
    flag: "egress",
    placeholder: "MODE",
    help:
      "How the workload's connections go out: env tells it this machine's proxy variables; proxy gives it a " +
      "proxy on its loopback, its only way out; transparent leads all its TCP connections there.",
    section,
  },
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
    key: "egressDefault",
    kind: "string",
    flag: "egress-default",
    placeholder: "ROUTE",
    defaultText: "the spec's, else cluster",
    help: "Route of what no rule matches.",
    section,
  },
  {
    key: "egressPac",
    kind: "string",
    flag: "egress-pac",
    placeholder: "FILE",
    help: "Proxy auto-configuration script that decides in place of rules.",
    section,
  },
] as const satisfies readonly AnyOption[];
