/** Managed bridges of Incus for deployments: the daemon gives out addresses and answers for names. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { IncusClient } from "../../../lib/incus/client.ts";
import type { Lease, Network } from "../../../lib/incus/types.ts";
import { NO_ADDRESS_HELP } from "../shared/engine_api/containers.ts";
import { foreignLabels, SERVER } from "../shared/engine_api/labels.ts";
import type { InspectedNetwork, NetworkCalls } from "../shared/engine_api/networks.ts";
import { configOf, type IncusPlace, interfaceName, keyOf, labelsOf } from "./place.ts";

/** The name that svc has for the network: the bridge's own has room for 15 characters. */
const NAME = keyOf("svc.network");
/**
 * Settings of the bridge's resolver. By default it looks for 3 s whether anybody has an address before it gives it
 * out: the instances of the bridge have theirs from it alone.
 */
export const RESOLVER = "no-ping";
/** An internal network leads nowhere. */
const INTERNAL = { "ipv4.nat": "false", "ipv4.routing": "false" };

function inspected({ name, type, config }: Network): InspectedNetwork {
  const [gateway, bits] = (config["ipv4.address"] ?? "").split("/");
  const Subnet = subnetOf(gateway, Number(bits));
  return {
    Id: name,
    Name: config[NAME] ?? name,
    Internal: config["ipv4.routing"] === "false",
    Driver: type,
    IPAM: { Config: Subnet ? [{ Subnet, Gateway: gateway }] : [] },
    Labels: labelsOf(config),
  };
}

/** "10.1.2.0/24" of "10.1.2.1" and 24. */
function subnetOf(address: string, bits: number): string | undefined {
  const parts = address.split(".").map(Number);
  if (parts.length !== 4 || !(bits >= 0 && bits <= 32)) return undefined;
  const number = parts.reduce((sum, part) => sum * 256 + part, 0);
  const size = 2 ** (32 - bits);
  const first = Math.floor(number / size) * size;
  return `${[24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256).join(".")}/${bits}`;
}

/** The first address of "10.1.2.0/24", with the subnet's length. */
function gatewayOf(subnet: string, gateway?: string): string {
  const [first, bits] = subnet.split("/");
  if (gateway) return `${gateway}/${bits}`;
  const parts = first.split(".").map(Number);
  return `${[...parts.slice(0, 3), parts[3] + 1].join(".")}/${bits}`;
}

export const listNetworks = async (client: IncusClient, signal?: AbortSignal) =>
  await client.get<Network[]>({
    path: "/networks",
    query: { recursion: 1 },
    attempted: "Cannot list the networks",
    signal,
  });

/** Throws `conflict` where the network has given out all its addresses. */
export async function requireRoom(
  client: IncusClient,
  id: string,
  attempted: string,
  signal?: AbortSignal,
): Promise<void> {
  const path = `/networks/${id}`;
  const { config } = await client.get<Network>({ path, attempted, signal });
  const leases = await client.get<Lease[]>({ path: `${path}/leases`, attempted, signal });
  const given = leases.filter(({ address, type }) => address.includes(".") && type !== "gateway");
  // Beside the first address, the last and the bridge's own.
  const room = 2 ** (32 - Number(config["ipv4.address"]?.split("/")[1])) - 3;
  // Also where it has none of IPv4.
  if (!(given.length >= room)) return;
  throw new SvcError(
    "conflict",
    `${attempted}: all addresses of network ${config[NAME] ?? id} are in use`,
    { help: NO_ADDRESS_HELP },
  );
}

export function incusNetworks({ client, server, networkLock }: IncusPlace): NetworkCalls {
  const list = async (signal?: AbortSignal) =>
    (await listNetworks(client, signal)).filter(({ config }) => config[keyOf(SERVER)] === server)
      .map(inspected);
  return {
    list,
    // Two servers' networks of one name are two.
    find: async (name) => (await list()).find(({ Name }) => Name === name),
    async create(name, { subnet, gateway, internal, enableIPv6, labels }) {
      const id = interfaceName(server, name);
      await networkLock.run(() =>
        client.change({
          path: "/networks",
          json: {
            name: id,
            type: "bridge",
            description: `network ${name} of svc`,
            config: {
              ...configOf({ ...foreignLabels(labels), [SERVER]: server }),
              [NAME]: name,
              "ipv4.address": subnet ? gatewayOf(subnet, gateway) : "auto",
              "ipv6.address": enableIPv6 ? "auto" : "none",
              "raw.dnsmasq": RESOLVER,
              ...(internal ? INTERNAL : { "ipv4.nat": "true" }),
              ...(enableIPv6 && !internal && { "ipv6.nat": "true" }),
            },
          },
          attempted: `Cannot make network ${name}`,
        })
      );
      return id;
    },
    // The daemon has a unix socket, and so is on this host.
    seesRoutes: () => Promise.resolve(true),
    async remove({ Id }, attempted, signal) {
      await networkLock.run(() =>
        client.change({ method: "DELETE", path: `/networks/${Id}`, attempted, signal })
      );
    },
  };
}
