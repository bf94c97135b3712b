/** The networks and ports of a service, as fields of a deployment spec. */
import type { DeploySpec, NetworkSpec, PortSpec } from "../api/deploy_spec.ts";
import type { LoadedProject } from "./project.ts";
import { refusal } from "./refusal.ts";
import { refuse, type Subject, texts } from "./subject.ts";

export function portsOf(of: Subject): PortSpec[] {
  return (of.service.ports ?? []).map((port, index) => {
    const { target, published, protocol = "tcp", host_ip: hostIP, mode } = port;
    if (mode === "host" || mode === undefined || mode === "ingress") {
      const text = published ?? "";
      if (/[-,]/.test(text)) {
        throw refuse(
          of,
          ["ports", index, "published"],
          "svc does not choose a port of a range",
          "name one port, or none for any that is free",
        );
      }
      const host = text === "" ? undefined : Number(text);
      return {
        ...(host ? { host } : {}),
        container: target,
        protocol: protocol as PortSpec["protocol"],
        ...(hostIP && { hostIP }),
      };
    }
    throw refuse(of, ["ports", index, "mode"], `there is no mode ${mode}`);
  });
}

export function exposedOf({ service: { expose = [] } }: Subject): DeploySpec["expose"] {
  const ports = expose.flatMap((entry) => {
    const [range, protocol = "tcp"] = String(entry).split("/");
    const [from, to = from] = range.split("-").map(Number);
    return Array.from({ length: to - from + 1 }, (_, index) => ({
      container: from + index,
      protocol: protocol as "tcp",
    }));
  });
  return ports.length > 0 ? ports : undefined;
}

/** The networks of the project that the service is on, each with what the service says of it. */
export function networksOf(of: Subject): NetworkSpec[] {
  const { loaded, name, service } = of;
  const { project } = loaded;
  const { network_mode: mode } = service;
  if (mode === "host" || mode === "none") return [{ name: mode }];
  if (mode && mode !== "bridge" && mode !== "default") {
    throw refuse(
      of,
      ["network_mode"],
      "a workload cannot join another one's network namespace",
      "use a network that both are on",
    );
  }
  const joined = Object.entries(service.networks ?? { default: null });
  const gateways = joined.map(([, one]) => one?.gw_priority ?? 0);
  const first = Math.max(...gateways);
  return joined.map(([key, one], index) => {
    const network = project.networks[key];
    const aliases = new Set([name, ...one?.aliases ?? []]);
    if (service.container_name) aliases.add(service.container_name);
    for (const field of ["link_local_ips", "driver_opts", "interface_name"] as const) {
      const value = (one as Record<string, unknown> | null)?.[field];
      if (value !== undefined && value !== null && Object.keys(value).length !== 0) {
        throw refuse(of, ["networks", key, field], "svc sets no such option of an interface");
      }
    }
    return {
      name: network?.name ?? `${project.name}_${key}`,
      aliases: [...aliases],
      ...networkFields(loaded, key),
      ...(one?.ipv4_address && { ip: one.ipv4_address }),
      ...(one?.ipv6_address && { ipv6: one.ipv6_address }),
      ...macOf(one?.mac_address ?? (index === 0 ? service.mac_address : undefined)),
      ...(one?.priority && { priority: one.priority }),
      ...(first > 0 && gateways[index] === first && { default: true }),
    };
  });
}

const macOf = (mac: string | undefined) => mac ? { mac } : {};

/** What the project says of a network; of an external one nothing but its name. */
function networkFields(loaded: LoadedProject, key: string): Partial<NetworkSpec> {
  const network = loaded.project.networks[key];
  if (!network || network.external) return {};
  const { driver, driver_opts, internal, attachable, enable_ipv6, labels, ipam } = network;
  const configs = ipam?.config ?? [];
  if (configs.length > 1) {
    throw refusal(loaded, ["networks", key, "ipam", "config", 1], "a network has one subnet");
  }
  const [{ subnet, gateway, ip_range: ipRange, aux_addresses: aux } = {}] = configs;
  if (aux && Object.keys(aux).length > 0) {
    throw refusal(
      loaded,
      ["networks", key, "ipam", "config", 0, "aux_addresses"],
      "the server reserves no addresses",
    );
  }
  if (ipam?.driver && ipam.driver !== "default") {
    throw refusal(loaded, ["networks", key, "ipam", "driver"], `there is no ${ipam.driver}`);
  }
  return {
    ...(driver && { driver }),
    ...(driver_opts && Object.keys(driver_opts).length > 0 && { driverOpts: texts(driver_opts) }),
    ...(internal && { internal }),
    ...(attachable && { attachable }),
    ...(enable_ipv6 && { enableIPv6: enable_ipv6 }),
    ...(labels && Object.keys(labels).length > 0 && { labels: texts(labels) }),
    ...(subnet && { subnet }),
    ...(gateway && { gateway }),
    ...(ipRange && { ipRange }),
  };
}
