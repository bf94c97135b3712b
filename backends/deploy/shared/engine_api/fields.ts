/** What engines that speak the Docker Engine API do with each field of a deployment spec. */
import { isRelayed } from "../../../../lib/api/egress.ts";
import type { FieldRules } from "../../../../lib/deploy/fields.ts";
import {
  credentialFields,
  honoured,
  hostFields,
  matching,
  networkApart,
  single,
  told,
} from "../fields.ts";

const SECURITY =
  /^(no-new-privileges([:=](true|false))?|seccomp[:=]unconfined|(apparmor|label)[:=].+|systempaths[:=]unconfined)$/;

/** `backend`: its name in reasons. */
export const engineFields = (backend: string): FieldRules => ({
  ...hostFields(backend, "the engine's host", ["proxy", "transparent"]),
  ports: {
    ...honoured("host", "container", "protocol", "hostIP"),
    "": {
      only:
        "not on the networks host and none, nor with a relayed egress; with several replicas they lead to the first",
      check: (ports, spec) => {
        const apart = networkApart(spec);
        if (ports.length === 0) return undefined;
        if (apart) return `not published on network ${apart}`;
        if (spec.egress && isRelayed(spec.egress)) {
          return `not published with egress mode ${spec.egress.mode}: the workload is on no network; ` +
            "ingress and svc port-forward lead to it";
        }
        return spec.replicas > 1
          ? "the engine leads a host port to one container: replica 0; ingress leads to all"
          : undefined;
      },
    },
  },
  volumes: {
    ...honoured("name", "target", "readOnly", "driver", "driverOpts", "labels"),
    size: told("the engine's local volumes have no limit; driverOpts of a tmpfs have one"),
    storageClass: told("it names a cluster's storage; use driver"),
  },
  networks: {
    ...honoured("name", "driver", "driverOpts", "default", "subnet", "gateway", "ipRange"),
    ...honoured("internal", "attachable", "enableIPv6", "labels", "priority"),
    aliases: {
      only: "on networks of their own",
      check: (alias, spec) => {
        const apart = networkApart(spec);
        return alias && apart ? `nobody is asked for names on network ${apart}` : undefined;
      },
    },
    ip: single(),
    ipv6: single(),
    mac: single(),
  },
  healthcheck: {
    ...honoured("test", "interval", "timeout", "startPeriod", "retries"),
    startInterval: {
      only: "within startPeriod, by Docker 25 and later",
      check: (_value, { healthcheck }) =>
        healthcheck?.startPeriod ? undefined : "without startPeriod the engine does not use it",
    },
  },
  credentials: credentialFields(backend, "file", "endpoint"),
  hostname: {
    only: "not on the network host",
    check: (hostname, spec) =>
      hostname && networkApart(spec) === "host"
        ? "on network host the engine's host gives the name"
        : undefined,
  },
  securityOpt: matching(
    backend,
    "no-new-privileges, seccomp=unconfined, apparmor=, label= and systempaths=unconfined",
    SECURITY,
  ),
});
