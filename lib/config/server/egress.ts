/** SPEC "Deploy backend (common)": what this server dials for workloads. */
import { optionTable } from "../table.ts";
import { invalid } from "../checks.ts";

export const EGRESS = optionTable([
  {
    key: "egressGateway",
    kind: "bool",
    env: ["SVC_EGRESS_GATEWAY"],
    default: false,
    section: "Egress",
    help:
      "This server dials connections of workloads whose egress route is gateway, from its own network, as " +
      "far as SVC_EGRESS_POLICY permits.",
  },
  {
    key: "egressPolicy",
    kind: "list",
    env: ["SVC_EGRESS_POLICY"],
    defaultText: "deny",
    placeholder: "[!]PATTERN,…",
    section: "Egress",
    help:
      "Where the gateway may dial: patterns as in egress rules (*.example.com:443, 10.0.0.0/8, :5432), of " +
      "which the first that matches decides; one that begins with ! refuses. What none matches is refused. " +
      "The server's own addresses, its loopback, link-local addresses and its workloads need a range that " +
      "contains them.",
    check: (value, source) => {
      for (const entry of value) readGatewayEntry(entry, source);
      return value;
    },
  },
]);

/** The form is checked by lib/egress, which config cannot import; here only what cannot be any. */
function readGatewayEntry(entry: string, source: string): void {
  if (/^!?[^!\s]+$/.test(entry)) return;
  throw invalid(source, `${JSON.stringify(entry)} is no pattern`);
}
