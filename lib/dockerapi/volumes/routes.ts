/** The routes of volumes. */
import { SvcError } from "../../base/errors.ts";
import type { DockerApi } from "../api.ts";
import { hasLabel, prunable } from "../containers/filters.ts";
import type { Seen } from "../containers/seen.ts";
import { newId } from "../ids.ts";
import type { Answer, ApiRoute, Call } from "../route.ts";
import type { ShownVolume } from "./volumes.ts";

interface CreateVolume {
  Name?: string;
  Driver?: string;
  DriverOpts?: Record<string, string> | null;
  Labels?: Record<string, string> | null;
  ClusterVolumeSpec?: unknown;
}

const usersOf = (all: readonly Seen[], name: string) =>
  all.filter(({ record }) => record.mounts.some((mount) => mount.Name === name));

const shown = ({ name, driver, driverOpts, labels, created }: ShownVolume) => ({
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
  const tests: Record<string, (volume: ShownVolume, value: string) => boolean> = {
    name: ({ name }, value) => name.includes(value),
    driver: ({ driver }, value) => driver === value,
    label: ({ labels }, value) => hasLabel(labels, value),
    dangling: ({ name }, value) =>
      ["1", "true"].includes(value) === (usersOf(containers, name).length === 0),
  };
  const volumes = (await api.volumes.all(call.signal)).filter((volume) =>
    [...filters].every(([name, values]) => {
      const test = tests[name];
      if (!test) throw new SvcError("argument_invalid", `invalid filter '${name}'`);
      return name === "label"
        ? values.every((value) => test(volume, value))
        : values.some((value) => test(volume, value));
    })
  );
  return { json: { Volumes: volumes.map(shown), Warnings: null } };
}

async function inspect(call: Call, api: DockerApi): Promise<Answer> {
  return { json: shown(await api.volumes.find(call.params.name, call.signal)) };
}

async function create(call: Call, api: DockerApi): Promise<Answer> {
  const request = await call.json<CreateVolume>() ?? {};
  if (request.ClusterVolumeSpec) {
    throw new SvcError("argument_invalid", "Cannot create the volume: there is no swarm");
  }
  const name = request.Name || newId();
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) {
    throw new SvcError("argument_invalid", `create ${name}: ${JSON.stringify(name)} is no name`);
  }
  const driver = request.Driver || "local";
  const known = (await api.volumes.all(call.signal)).find((one) => one.name === name);
  if (known) {
    if (known.driver === driver) return { status: 201, json: shown(known) };
    throw new SvcError("conflict", `a volume named ${name} already exists with another driver`, {
      help: "",
    });
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
    throw new SvcError("not_found", `get ${name}: no such volume`);
  }
  const users = usersOf(await api.containers.all(call.signal), name);
  if (users.length > 0) {
    const ids = users.map(({ record }) => record.id).join(", ");
    throw new SvcError("conflict", `remove ${name}: volume is in use - [${ids}]`, { help: "" });
  }
  await api.volumes.remove(name);
  api.events.tell("volume", "destroy", name, { driver: volume.driver });
  return { status: 204 };
}

async function prune(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const every = filters.get("all")?.some((value) => ["1", "true"].includes(value)) ?? false;
  const containers = await api.containers.all(call.signal);
  const deleted: string[] = [];
  for (const { name, driver, created, labels } of await api.volumes.all(call.signal)) {
    const isUsed = usersOf(containers, name).length > 0;
    // Without `all` only those that have no name of their own, as docker does it.
    const isUnnamed = /^[0-9a-f]{64}$/.test(name);
    if (isUsed || !every && !isUnnamed || !prunable({ created, labels }, filters, ["all"])) {
      continue;
    }
    try {
      await api.volumes.remove(name);
    } catch (error) {
      // A deployment that svc's own clients made has it.
      if (error instanceof SvcError && error.code === "conflict") continue;
      throw error;
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
