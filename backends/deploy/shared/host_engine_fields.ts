/** What backends over the host engine (lib/deploy/host) do with each field of a deployment spec. */
import type { FieldRules } from "../../../lib/deploy/fields.ts";
import {
  among,
  credentialFields,
  honoured,
  hostFields,
  matching,
  networkApart,
  single,
  told,
} from "./fields.ts";

/** `backend`: its name in reasons. */
export const hostEngineFields = (backend: string): FieldRules => ({
  ...hostFields(backend, "the host", ["proxy", "transparent"]),
  ports: {
    ...honoured("host", "container", "protocol", "hostIP"),
    "": {
      only: "not on the networks host and none",
      check: (ports, spec) => {
        const apart = networkApart(spec);
        return ports.length > 0 && apart ? `not published on network ${apart}` : undefined;
      },
    },
  },
  volumes: {
    ...honoured("name", "target", "readOnly", "labels"),
    size: told(`the ${backend} backend's volumes have no limit`),
    storageClass: told("it names a cluster's storage; volumes are folders of the host here"),
    driver: among(backend, "local", "default"),
    driverOpts: told("volumes are folders of the host here, and need no options"),
  },
  networks: {
    ...honoured("name", "default", "internal", "enableIPv6", "labels", "priority"),
    driver: among(backend, "bridge", "default"),
    driverOpts: told(`bridges of the ${backend} backend take no options`),
    aliases: {
      only: "on networks of their own",
      check: (alias, spec) => {
        const apart = networkApart(spec);
        return apart && `nobody is asked for ${alias} on network ${apart}`;
      },
    },
    ip: single("an address of the network's /24, "),
    subnet: {
      only: "a /24 of SVC_CNI_SUBNET_BASE that is free, or with enableIPv6 one of IPv6",
      check: (subnet) =>
        subnet.includes(":") || /\.0\/24$/.test(subnet) ? undefined : `${subnet} is no /24`,
    },
    gateway: told("the gateway is the first address of the network's /24"),
    ipRange: told("addresses are given out of the whole /24"),
    attachable: {
      only: "true",
      check: (attachable) =>
        attachable ? undefined : "any deployment of this server may name the network",
    },
    ipv6: single("an address of the network's IPv6 subnet, "),
    mac: single(),
  },
  healthcheck: honoured("test", "interval", "timeout", "startPeriod", "startInterval", "retries"),
  credentials: credentialFields(backend, "file", "endpoint"),
  hostname: "honoured",
  securityOpt: matching(
    backend,
    "no-new-privileges and seccomp=unconfined",
    /^(no-new-privileges([:=](true|false))?|seccomp[:=]unconfined)$/,
  ),
});
