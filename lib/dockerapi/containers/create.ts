/** `POST /containers/create`. */
import { parsePlatform } from "../../oci/platform.ts";
import type { DockerApi } from "../api.ts";
import { invalid } from "../errors.ts";
import { newId } from "../ids.ts";
import { type FoundImage, requireImage } from "../images/find.ts";
import { checkRequest } from "./honoured.ts";
import { checkName, deploymentName, someName } from "./names.ts";
import type { ContainerRecord } from "./record.ts";
import type { Bodies, ContainerConfig, EndpointSettings } from "../bodies.ts";
import { containerSpec, modeOf } from "./spec.ts";
import { storageOf } from "./storage.ts";
import type { Answer, Call } from "../request.ts";

/** Lists and maps are what was given, and behind it what the image has. */
function merged(given: ContainerConfig, { config }: FoundImage["config"]): ContainerConfig {
  const names = new Set((given.Env ?? []).map((text) => text.split("=", 1)[0]));
  const inherited = (config?.Env ?? []).filter((text) => !names.has(text.split("=", 1)[0]));
  const entry = given.Entrypoint ?? config?.Entrypoint ?? undefined;
  return {
    ...given,
    User: given.User || config?.User || "",
    Env: [...given.Env ?? [], ...inherited],
    Entrypoint: entry,
    Cmd: given.Cmd ?? (given.Entrypoint ? undefined : config?.Cmd ?? undefined),
    WorkingDir: given.WorkingDir || config?.WorkingDir || "",
    Labels: { ...config?.Labels, ...given.Labels },
    ExposedPorts: { ...config?.ExposedPorts, ...given.ExposedPorts },
    StopSignal: given.StopSignal || config?.StopSignal,
    Healthcheck: given.Healthcheck || config?.Healthcheck
      ? { ...config?.Healthcheck, ...given.Healthcheck }
      : undefined,
  };
}

/** The networks that the request names, with what it says of each. */
function endpointsOf(request: Bodies["ContainerCreate"]): Record<string, EndpointSettings> {
  const mode = modeOf(request.HostConfig ?? {});
  const given = request.NetworkingConfig?.EndpointsConfig ?? {};
  const named = Object.entries(given).map(([name, settings]) =>
    [name === "default" ? "bridge" : name, settings ?? {}] as const
  );
  const endpoints = Object.fromEntries(named) as Record<string, EndpointSettings>;
  const main = { [mode]: { ...endpoints[mode] } };
  if (request.MacAddress) main[mode].MacAddress ??= request.MacAddress;
  return { ...main, ...endpoints, ...main };
}

function portsAreListed(record: ContainerRecord): void {
  for (const port of Object.keys(record.hostConfig.PortBindings ?? {})) {
    record.config.ExposedPorts = { ...record.config.ExposedPorts, [port]: {} };
  }
}

export async function create(call: Call, api: DockerApi): Promise<Answer> {
  const request = await call.json("ContainerCreate");
  const warnings = checkRequest(request);
  const { HostConfig, NetworkingConfig: _, ...given } = request;
  const hostConfig = HostConfig ?? {};
  if (!given.Image) throw invalid("no image was specified");
  const id = newId();
  const asked = call.query.get("name");
  const known = (one: string) => api.containers.records.some(({ name }) => name === one);
  const name = asked ? checkName(asked) : someName(known);
  // Looked for meanwhile.
  const platform = call.query.get("platform");
  const finding = requireImage(
    api,
    given.Image,
    call.signal,
    platform ? parsePlatform(platform) : undefined,
  );
  finding.catch(() => {/* thrown below */});
  using all = await api.containers.reserve(name, call.signal);
  const image = await finding;
  const used = new Set(all.map(({ status }) => status.name));
  const record: ContainerRecord = {
    ...{ id, name, deployment: deploymentName(name, id, (one) => used.has(one)) },
    created: new Date().toISOString(),
    image: given.Image,
    imageId: image.id,
    given,
    config: merged(given, image.config),
    hostConfig,
    endpoints: endpointsOf(request),
    ...{ mounts: [], anonymous: [], source: { image: image.name, binds: [] } },
  };
  portsAreListed(record);
  await api.networks.require(Object.keys(record.endpoints), call.signal);
  const storage = storageOf({
    ...{ id, config: { ...given, Volumes: { ...image.config.config?.Volumes, ...given.Volumes } } },
    host: hostConfig,
    socket: api.socket,
    volume: (one) => api.volumes.record(one),
  });
  const { mounts, anonymous, binds } = storage;
  Object.assign(record, { mounts, anonymous, source: { image: image.name, binds } });
  const spec = containerSpec({
    ...{ record, storage, publishes: api.isLocal },
    network: (one) => api.networks.record(one),
  });
  const told = await api.containers.make(record, spec);
  api.containers.life.tell(record, "create");
  return { status: 201, json: { Id: id, Warnings: [...warnings, ...storage.warnings, ...told] } };
}
