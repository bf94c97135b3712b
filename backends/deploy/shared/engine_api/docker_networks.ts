/** The networks of an engine that speaks the Docker Engine API. */
import type { DockerClient } from "../../../../lib/docker/client.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import { driverOf, withDriver } from "./drivers.ts";
import { foreignLabels, SERVER, serverLabel } from "./labels.ts";
import type { InspectedNetwork, NetworkCalls } from "./networks.ts";

export function dockerNetworks(
  client: DockerClient,
  server: string,
  behaviour: EngineBehaviour,
): NetworkCalls {
  const { seesRoutes } = behaviour;
  const list = (filters: Record<string, string[]>, attempted: string, signal?: AbortSignal) =>
    client.json<InspectedNetwork[]>({ path: "/networks", query: { filters }, attempted, signal });
  return {
    list: (signal) => list({ label: [serverLabel(server)] }, "Cannot list the networks", signal),
    async find(name) {
      const all = await list({ name: [name] }, `Cannot use network ${name}`);
      return all.find(({ Name }) => Name === name);
    },
    async create(name, spec) {
      const { driver, driverOpts, subnet, gateway, ipRange, internal, enableIPv6 } = spec;
      const attempted = `Cannot make network ${name}`;
      const json = {
        Name: name,
        CheckDuplicate: true,
        Driver: driverOf(driver, "bridge"),
        Options: driverOpts ?? {},
        Internal: internal ?? false,
        Attachable: spec.attachable ?? true,
        EnableIPv6: enableIPv6 ?? false,
        ...(subnet && {
          IPAM: { Config: [{ Subnet: subnet, Gateway: gateway, IPRange: ipRange }] },
        }),
        Labels: { ...foreignLabels(spec.labels), [SERVER]: server },
      };
      const { Id } = await withDriver(
        client,
        { kind: "Network", driver: json.Driver, attempted },
        () => client.json<{ Id: string }>({ path: "/networks/create", json, attempted }),
      );
      return Id;
    },
    ...(seesRoutes && { seesRoutes: (attempted) => seesRoutes(client, attempted) }),
    // By its id: the engine could take a name for the id of somebody else's network.
    remove: ({ Id }, attempted, signal) =>
      client.run({
        method: "DELETE",
        ...behaviour.networkRemoval?.(Id) ?? { path: `/networks/${Id}` },
        attempted,
        signal,
      }),
  };
}
