/** The routes of networks. */
import type { DockerApi } from "../api.ts";
import type { Bodies } from "../bodies.ts";
import { isUp, type Seen } from "../containers/seen.ts";
import { conflict, denied, invalid, refusalOf } from "../errors.ts";
import { filtered, hasLabel, isTrue, PRUNE_TESTS, type Tests } from "../filters.ts";
import { idOf, newId } from "../ids.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { isPredefined } from "./networks.ts";
import type { NetworkRecord } from "./record.ts";

const usersOf = (all: readonly Seen[], name: string) =>
  all.filter(({ record }) => name in record.endpoints);

function shown(network: NetworkRecord, users: readonly Seen[]) {
  const { id, name, driver, internal, attachable, enableIPv6, options, labels, created } = network;
  const { subnet, gateway, ipRange } = network;
  const config = subnet
    ? [{ Subnet: subnet, ...gateway && { Gateway: gateway }, ...ipRange && { IPRange: ipRange } }]
    : [];
  return {
    Name: name,
    Id: id,
    Created: created,
    Scope: "local",
    Driver: driver,
    EnableIPv4: true,
    EnableIPv6: enableIPv6,
    IPAM: { Driver: "default", Options: null, Config: config },
    ...{ Internal: internal, Attachable: attachable, Ingress: false },
    ...{ ConfigFrom: { Network: "" }, ConfigOnly: false },
    Containers: Object.fromEntries(
      users.filter(({ instance }) => isUp(instance)).map(({ record, instance }) => [record.id, {
        Name: record.name,
        EndpointID: idOf(`${record.id} ${name}`),
        MacAddress: "",
        IPv4Address: instance?.ip ?? "",
        IPv6Address: "",
      }]),
    ),
    Options: options,
    Labels: labels,
  };
}

const TESTS: Tests<NetworkRecord> = {
  name: ({ name }, value) => name.includes(value.replace(/^\^|\$$/g, "")) && exactly(name, value),
  id: ({ id }, value) => id.startsWith(value),
  driver: ({ driver }, value) => driver === value,
  scope: (_network, value) => value === "local",
  label: ({ labels }, value) => hasLabel(labels, value),
  type: ({ name }, value) => (value === "builtin") === isPredefined(name),
};

/** A name between ^ and $ is a whole one. */
const exactly = (name: string, pattern: string) =>
  !/^\^.*\$$/.test(pattern) || `^${name}$` === pattern;

async function list(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const all = await api.containers.all(call.signal);
  const networks = filtered(await api.networks.all(call.signal), filters, {
    ...TESTS,
    dangling: ({ name }, value) =>
      isTrue(value) === (!isPredefined(name) && usersOf(all, name).length === 0),
  });
  // A list has no containers.
  return { json: networks.map((network) => shown(network, [])) };
}

async function inspect(call: Call, api: DockerApi): Promise<Answer> {
  const network = await api.networks.find(call.params.id, call.signal);
  return { json: shown(network, usersOf(await api.containers.all(call.signal), network.name)) };
}

const refuse = refusalOf("create the network");

/** Options that docker's own tools set and that say what is so anyway. */
const USUAL_OPTIONS = ["com.docker.network.bridge.name", "com.docker.network.enable_ipv4"];

function checkNetwork(request: Bodies["NetworkCreate"]): void {
  const { Name = "", Ingress, ConfigOnly, ConfigFrom, EnableIPv4, IPAM, Scope = "" } = request;
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(Name)) {
    throw invalid(`invalid network name: ${Name}`);
  }
  if (Ingress) throw refuse("Ingress", "there is no swarm");
  if (ConfigOnly || ConfigFrom?.Network) throw refuse("ConfigOnly", "there are no such networks");
  if (Scope !== "" && Scope !== "local") throw refuse("Scope", "there is no swarm");
  if (EnableIPv4 === false) throw refuse("EnableIPv4", "every network has IPv4");
  if (IPAM?.Driver && IPAM.Driver !== "default") throw refuse("IPAM.Driver", "there is no other");
  const configs = IPAM?.Config ?? [];
  const four = configs.filter(({ Subnet = "" }) => !Subnet.includes(":"));
  if (four.length > 1) throw refuse("IPAM.Config", "a network has one subnet");
  if (configs.some(({ AuxiliaryAddresses }) => Object.keys(AuxiliaryAddresses ?? {}).length > 0)) {
    throw refuse("IPAM.Config.AuxiliaryAddresses", "svc keeps no addresses free");
  }
}

async function create(call: Call, api: DockerApi): Promise<Answer> {
  const request = await call.json("NetworkCreate");
  checkNetwork(request);
  const name = request.Name!;
  const all = await api.networks.all(call.signal);
  if (all.some((one) => one.name === name)) {
    if (isPredefined(name)) {
      throw denied(`operation is not permitted on predefined ${name} network`);
    }
    throw conflict(`network with name ${name} already exists`);
  }
  const four = request.IPAM?.Config?.find(({ Subnet = "" }) => !Subnet.includes(":")) ?? {};
  const options = Object.fromEntries(
    Object.entries(request.Options ?? {}).filter(([key]) => !USUAL_OPTIONS.includes(key)),
  );
  const record: NetworkRecord = {
    ...{ id: newId(), name, driver: request.Driver || "bridge" },
    internal: request.Internal ?? false,
    attachable: request.Attachable ?? false,
    enableIPv6: request.EnableIPv6 ?? false,
    options,
    labels: request.Labels ?? {},
    ...four.Subnet && { subnet: four.Subnet },
    ...four.Gateway && { gateway: four.Gateway },
    ...four.IPRange && { ipRange: four.IPRange },
    created: new Date().toISOString(),
  };
  await api.networks.save(record);
  tell(api, "create", record);
  return { status: 201, json: { Id: record.id, Warning: "" } };
}

function tell(api: DockerApi, action: string, { id, name, driver }: NetworkRecord, more = {}) {
  api.events.tell("network", action, id, { name, type: driver, ...more });
}

async function remove(call: Call, api: DockerApi): Promise<Answer> {
  const network = await api.networks.find(call.params.id, call.signal);
  const { name, id } = network;
  if (isPredefined(name)) {
    throw denied(`${name} is a pre-defined network and cannot be removed`);
  }
  const users = usersOf(await api.containers.all(call.signal), name);
  if (users.length > 0) {
    throw conflict(
      `error while removing network: network ${name} id ${id} has active endpoints (${
        users.map(({ record }) => record.name).join(", ")
      })`,
    );
  }
  await api.networks.remove(network);
  tell(api, "destroy", network);
  return { status: 204 };
}

async function prune(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const all = await api.containers.all(call.signal);
  const deleted: string[] = [];
  for (const network of filtered(await api.networks.all(call.signal), filters, PRUNE_TESTS)) {
    const { name } = network;
    // Networks of deployments that svc's own clients made are theirs.
    if (usersOf(all, name).length > 0 || !api.networks.record(name)) continue;
    await api.networks.remove(network);
    tell(api, "destroy", network);
    deleted.push(name);
  }
  return { json: { NetworksDeleted: deleted } };
}

/** Changes the networks of a container that was never started. Throws `unsupported` for another one. */
function changes(what: "connect" | "disconnect") {
  return async (call: Call, api: DockerApi): Promise<Answer> => {
    const network = await api.networks.find(call.params.id, call.signal);
    const { Container = "", EndpointConfig } = await call.json("NetworkChange");
    if (Container === "") throw invalid(`Cannot ${what}: the body names no container`);
    const seen = await api.containers.find(Container, call.signal);
    const { record } = seen;
    const { name } = network;
    const endpoints = { ...record.endpoints };
    if (what === "connect") endpoints[name] = { ...endpoints[name], ...EndpointConfig };
    else delete endpoints[name];
    if (JSON.stringify(endpoints) === JSON.stringify(record.endpoints)) return {};
    await api.containers.changeNetworks(seen, endpoints);
    tell(api, what, network, { container: record.id });
    return {};
  };
}

export const NETWORK_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/networks", handler: list },
  { method: "POST", path: "/networks/create", handler: create },
  { method: "POST", path: "/networks/prune", handler: prune },
  { method: "GET", path: "/networks/{id}", handler: inspect },
  { method: "DELETE", path: "/networks/{id}", handler: remove },
  { method: "POST", path: "/networks/{id}/connect", handler: changes("connect") },
  { method: "POST", path: "/networks/{id}/disconnect", handler: changes("disconnect") },
];
