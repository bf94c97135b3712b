/** `GET /info` and `GET /system/df`. */
import { buildInfo } from "../../base/build_info.ts";
import { stateOf } from "../containers/seen.ts";
import { rowOf } from "../containers/show.ts";
import { storageUsage } from "../../client/storage.ts";
import type { DockerApi } from "../api.ts";
import { invalid } from "../errors.ts";
import { imagesOf } from "../images/access.ts";
import { summary } from "../images/shapes.ts";
import { idOf } from "../ids.ts";
import type { Answer, Call } from "../request.ts";
import { shown, usersOf } from "../volumes/routes.ts";

/** Members that clients read without looking whether they are there. */
const DEFAULTS = {
  ...{ DriverStatus: [], SystemStatus: null, Plugins: { Volume: ["local"], Network: ["bridge"] } },
  ...{ MemoryLimit: true, SwapLimit: false, CpuCfsPeriod: true, CpuCfsQuota: true },
  ...{ CPUShares: false, CPUSet: false, PidsLimit: true, OomKillDisable: false },
  ...{ IPv4Forwarding: true, Debug: false, NFd: 0, NGoroutines: 0, NEventsListener: 0 },
  ...{ LoggingDriver: "json-file", CgroupDriver: "cgroupfs", CgroupVersion: "2" },
  ...{ KernelVersion: "", OSVersion: "", IndexServerAddress: "", HttpProxy: "", HttpsProxy: "" },
  ...{ NoProxy: "", Labels: [], ExperimentalBuild: false, LiveRestoreEnabled: true },
  Runtimes: { runc: { path: "runc" } },
  ...{ DefaultRuntime: "runc", Isolation: "", InitBinary: "", SecurityOptions: [] },
  Swarm: { NodeID: "", NodeAddr: "", LocalNodeState: "inactive", ControlAvailable: false },
  ContainerdCommit: { ID: "" },
  RuncCommit: { ID: "" },
  InitCommit: { ID: "" },
  CDISpecDirs: [],
};

export async function info(call: Call, api: DockerApi): Promise<Answer> {
  const client = api.client(call.signal);
  const [server, containers] = await Promise.all([
    client.json("GET /info"),
    api.containers.all(call.signal),
  ]);
  const count = (...states: string[]) =>
    containers.filter((seen) => states.includes(stateOf(seen))).length;
  const { version } = buildInfo();
  const { backend, engine, available, reason } = server.deploy;
  return {
    json: {
      ...DEFAULTS,
      ID: idOf(client.server),
      Containers: containers.length,
      ContainersRunning: count("running", "restarting"),
      ContainersPaused: count("paused"),
      ContainersStopped: count("created", "exited"),
      Images: 0,
      Driver: "overlay2",
      SystemTime: new Date().toISOString(),
      OperatingSystem: `svc ${server.version} (${engine ?? backend})`,
      OSType: "linux",
      Architecture: Deno.build.arch,
      NCPU: navigator.hardwareConcurrency,
      MemTotal: Deno.systemMemoryInfo().total,
      DockerRootDir: "/var/lib/svc",
      Name: new URL(client.server).host,
      ServerVersion: version,
      RegistryConfig: {
        InsecureRegistryCIDRs: ["127.0.0.0/8"],
        IndexConfigs: {},
        Mirrors: null,
      },
      Warnings: available ? [] : [`the server cannot deploy: ${reason}`],
    },
  };
}

const TYPES = ["container", "image", "volume", "build-cache"];

/** Sizes are the server's where it counts them; -1: nobody has counted. */
export async function df(call: Call, api: DockerApi): Promise<Answer> {
  const types = call.query.getAll("type");
  const other = types.find((type) => !TYPES.includes(type));
  if (other !== undefined) throw invalid(`unknown object type: ${other}`);
  const wants = (type: string) => types.length === 0 || types.includes(type);
  const [containers, volumes, images, { buildCache }] = await Promise.all([
    api.containers.all(call.signal),
    api.volumes.all(call.signal),
    imagesOf(api).then(({ store }) => store.list(call.signal)),
    storageUsage(api.client(call.signal)),
  ]);
  const layers = new Map(
    images.flatMap(({ manifest }) => manifest.layers.map(({ digest, size }) => [digest, size])),
  );
  const usedBy = (id: string) => containers.filter(({ record }) => record.imageId === id).length;
  return {
    json: {
      LayersSize: layers.values().reduce((sum, size) => sum + size, 0),
      Images: wants("image")
        ? images.map((image) => ({
          ...summary(image, call.version),
          ...{ SharedSize: 0, Containers: usedBy(image.id) },
        }))
        : null,
      Containers: wants("container")
        ? containers.map((seen) => ({ ...rowOf(seen, api), SizeRw: 0, SizeRootFs: 0 }))
        : null,
      Volumes: wants("volume")
        ? volumes.map((volume) => ({
          ...shown(volume),
          UsageData: { RefCount: usersOf(containers, volume.name).length, Size: volume.size ?? -1 },
        }))
        : null,
      BuildCache: buildCache && wants("build-cache")
        ? [{ ID: "svc", Type: "regular", Size: buildCache.bytes, InUse: false, Shared: false }]
        : null,
      BuilderSize: buildCache?.bytes ?? 0,
    },
  };
}
