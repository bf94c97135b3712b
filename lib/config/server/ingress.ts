/** SPEC "Ingress defaults", except options of a cluster's ingress. */
import { parseAddress } from "../address.ts";
import { optionTable } from "../table.ts";

const section = "Ingress";

export const INGRESS = optionTable([
  {
    key: "ingressDomain",
    kind: "string",
    env: ["SVC_INGRESS_DOMAIN"],
    placeholder: "DOMAIN",
    section,
    help:
      "Base domain: a workload with ingress and without a host answers at NAME.DOMAIN. Unset: the " +
      "workload must name a host or a domain.",
  },
  {
    key: "ingressEnforceDomain",
    kind: "bool",
    env: ["SVC_INGRESS_ENFORCE_DOMAIN"],
    default: false,
    section,
    help:
      "Reject workloads with a host outside SVC_INGRESS_DOMAIN. Without that domain this has no " +
      "effect.",
  },
  {
    key: "ingressListen",
    kind: "string",
    env: ["SVC_INGRESS_LISTEN"],
    placeholder: "[HOST]:PORT",
    section,
    help: "Address of the server's own ingress front door, such as :8080, which serves the hosts " +
      "and paths of workloads over plain HTTP. Unset: they are reachable through " +
      "`svc ingress-tunnel` only. An address that cannot be bound is logged; the server starts.",
    check: (value, source) => (parseAddress(value, source), value),
  },
]);
