/** The routes of volumes. */
import type { DockerApi } from "../api.ts";
import type { Seen } from "../containers/seen.ts";
import { conflict, invalid, unless } from "../errors.ts";
import { filtered, hasLabel, isTrue, PRUNE_TESTS, type Tests } from "../filters.ts";
import { newId } from "../ids.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { noSuchVolume, type ShownVolume } from "./volumes.ts";

/** Containers that have it. */
export const usersOf = (all: readonly Seen[], name: string) =>
  all.filter(({ record }) => record.mounts.some((mount) => mount.Name === name));

/** As docker shows it. */
export const shown = ({ name, driver, driverOpts, labels, created }: ShownVolume) => ({
  Name: name,
  Driver: driver,
  // A folder of the server, which is not told.
  Mountpoint: `/volumes/${name}`,
  CreatedAt: created,
  Labels: labels,
  Options: Object.keys(driverOpts).length > 0 ? driverOpts : null,
  Scope: "local",
});

async function list(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const containers = await api.containers.all(call.signal);
  const shownBy: Tests<ShownVolume> = {
    name: ({ name }, value) => name.includes(value),
    driver: ({ driver }, value) => driver === value,
    label: ({ labels }, value) => hasLabel(labels, value),
    dangling: ({ name }, value) => isTrue(value) === (usersOf(containers, name).length === 0),
  };
  const volumes = filtered(await api.volumes.all(call.signal), filters, shownBy);
  return { json: { Volumes: volumes.map(shown), Warnings: null } };
}

async function inspect(call: Call, api: DockerApi): Promise<Answer> {
  return { json: shown(await api.volumes.find(call.params.name, call.signal)) };
}

async function create(call: Call, api: DockerApi): Promise<Answer> {
  const request = await call.json("VolumeCreate");
  if (request.ClusterVolumeSpec) {
    throw invalid("Cannot create the volume: there is no swarm");
  }
  const name = request.Name || newId();
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) {
    throw invalid(`create ${name}: ${JSON.stringify(name)} is no name`);
  }
  const driver = request.Driver || "local";
  const known = (await api.volumes.all(call.signal)).find((one) => one.name === name);
  if (known) {
    if (known.driver === driver) return { status: 201, json: shown(known) };
    throw conflict(`a volume named ${name} already exists with another driver`);
  }
  const record = {
    ...{ name, driver, driverOpts: request.DriverOpts ?? {}, labels: request.Labels ?? {} },
    created: new Date().toISOString(),
  };
  await api.volumes.save(record);
  api.events.tell("volume", "create", name, { driver });
  return { status: 201, json: shown(record) };
}

async function remove(call: Call, api: DockerApi): Promise<Answer> {
  const { name } = call.params;
  const all = await api.volumes.all(call.signal);
  const volume = all.find((one) => one.name === name);
  if (!volume) {
    if (call.flag("force")) return { status: 204 };
    throw noSuchVolume(name);
  }
  const users = usersOf(await api.containers.all(call.signal), name);
  if (users.length > 0) {
    const ids = users.map(({ record }) => record.id).join(", ");
    throw conflict(`remove ${name}: volume is in use - [${ids}]`);
  }
  await api.volumes.remove(name);
  api.events.tell("volume", "destroy", name, { driver: volume.driver });
  return { status: 204 };
}

async function prune(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const every = filters.get("all")?.some(isTrue) ?? false;
  const containers = await api.containers.all(call.signal);
  const { label, "label!": unlabelled } = PRUNE_TESTS;
  const tests: Tests<ShownVolume> = { label, "label!": unlabelled, all: () => true };
  const deleted: string[] = [];
  for (const { name, driver } of filtered(await api.volumes.all(call.signal), filters, tests)) {
    const isUsed = usersOf(containers, name).length > 0;
    // Without `all` only those that have no name of their own, as docker does it.
    const isUnnamed = /^[0-9a-f]{64}$/.test(name);
    if (isUsed || !every && !isUnnamed) continue;
    try {
      await api.volumes.remove(name);
    } catch (error) {
      // A deployment that svc's own clients made has it.
      unless("conflict")(error);
      continue;
    }
    api.events.tell("volume", "destroy", name, { driver });
    deleted.push(name);
  }
  return { json: { VolumesDeleted: deleted, SpaceReclaimed: 0 } };
}

export const VOLUME_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/volumes", handler: list },
  { method: "POST", path: "/volumes/create", handler: create },
  { method: "POST", path: "/volumes/prune", handler: prune },
  { method: "GET", path: "/volumes/{name}", handler: inspect },
  { method: "DELETE", path: "/volumes/{name}", handler: remove },
];
