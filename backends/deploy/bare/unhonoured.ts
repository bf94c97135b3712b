/** What a spec may ask for and this backend does not do. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { type Unhonoured, unhonoured } from "../../../lib/deploy/honour.ts";

const FIELDS: Unhonoured = {
  proxy: true,
  dns: true,
  hub: true,
  docker: true,
  credentials: true,
  egress: true,
  "ingress.className": "it names a cluster's ingress controller; this server routes itself",
  "ingress.annotations": "they are for a cluster's ingress controller; this server routes itself",
  "ingress.tls": "this server serves plain HTTP; HTTPS is for a proxy or a tunnel in front of it",
  knative: true,
  agentForward: true,
  telemetry: true,
  "mounts.selinux": true,
  "mounts.asyncCache": true,
  "volumes.size": "the bare backend's volumes have no limit",
  "volumes.storageClass": true,
  "volumes.driverOpts": true,
  "networks.driverOpts": true,
  "networks.ip": true,
  "networks.subnet": "subnets come from SVC_CNI_SUBNET_BASE",
  "networks.gateway": "subnets come from SVC_CNI_SUBNET_BASE",
  "networks.ipRange": "subnets come from SVC_CNI_SUBNET_BASE",
  "networks.enableIPv6": true,
  "networks.ipv6": true,
  "networks.mac": true,
};

const KNOWN_SECURITY = /^(no-new-privileges([:=](true|false))?|seccomp[:=]unconfined)$/;

export function bareWarnings(spec: DeploySpec): string[] {
  const warnings = unhonoured(spec, FIELDS, "bare");
  const only = (path: string, value: string | undefined, allowed: string[]) => {
    if (value !== undefined && !allowed.includes(value)) {
      warnings.push(`${path}: ${value} is not honoured by the bare backend`);
    }
  };
  only("updateConfig.order", spec.updateConfig?.order, ["start-first"]);
  const { parallelism = 0 } = spec.updateConfig ?? {};
  if (parallelism > 0 && parallelism < spec.replicas) {
    warnings.push(
      `updateConfig.parallelism: the bare backend replaces all ${spec.replicas} replicas at once`,
    );
  }
  only("pidMode", spec.pidMode, ["host", "private", ""]);
  only("ipcMode", spec.ipcMode, ["host", "private", ""]);
  for (const [i, volume] of spec.volumes.entries()) {
    only(`volumes[${i}].driver`, volume.driver, ["local", "default"]);
  }
  for (const [i, network] of spec.networks.entries()) {
    only(`networks[${i}].driver`, network.driver, ["bridge", "default"]);
  }
  for (const [i, option] of (spec.securityOpt ?? []).entries()) {
    if (!KNOWN_SECURITY.test(option)) {
      warnings.push(`securityOpt[${i}]: ${option} is not honoured by the bare backend`);
    }
  }
  if (spec.ports.length > 0 && spec.replicas > 1) {
    warnings.push(`ports: published to the first of ${spec.replicas} replicas`);
  }
  if (spec.ingress && spec.ingress.enabled !== false && spec.replicas > 1) {
    warnings.push(`ingress: requests go to the first of ${spec.replicas} replicas that runs`);
  }
  if (
    spec.ports.length > 0 && spec.networks.some(({ name }) => name === "host" || name === "none")
  ) {
    warnings.push(`ports: not published on network ${spec.networks[0].name}`);
  }
  return warnings;
}
