/** Companions as containers of an engine with the Docker Engine API. */
import { ignoringMissing } from "../../../../lib/docker/errors.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { COMPANION_MOUNTS } from "../../../../lib/api/caretaker.ts";
import type { CaredFor } from "../../../../lib/deploy/caretakers.ts";
import { COMPANION_PIDS } from "../../../../lib/deploy/companions.ts";
import { lastWords } from "../../../../lib/docker/last_words.ts";
import type { CompanionCalls, CompanionRequest } from "./engine.ts";
import type { Inspected } from "./inspect.ts";
import {
  COMPANION_CONFIG,
  COMPANION_DEPLOYMENT,
  COMPANION_KEY,
  COMPANION_SERVER,
  FILES,
} from "./labels.ts";

/** The folder that an instance shares with its companion, in both. */
export const SHARED = "/run/svc/agents";

/** Seconds that such a one may take to unmount: what it leaves, nobody else unmounts. */
const UNMOUNT = 10;

/** What all companions have. */
const APART = {
  // A stop by the server lasts; what ends by itself comes back.
  RestartPolicy: { Name: "unless-stopped" },
  ReadonlyRootfs: true,
  Tmpfs: { "/tmp": "" },
  CapDrop: ["ALL"],
  SecurityOpt: ["no-new-privileges"],
  PidsLimit: COMPANION_PIDS,
};

const containerOf = (key: string) => `${key}-companion`;
const volumeOf = (key: string) => `${key}-agents`;

/** `server`: identity of the server's data directory. */
export function dockerCompanions(client: DockerClient, server: string): CompanionCalls {
  const labelled = (deployment: string, key: string) => ({
    [COMPANION_SERVER]: server,
    [COMPANION_DEPLOYMENT]: deployment,
    [COMPANION_KEY]: key,
  });
  const act = (key: string, action: "restart" | "stop") =>
    client.run({
      method: "POST",
      path: `/containers/${containerOf(key)}/${action}`,
      // Others have nothing to end in good order: what they served is gone with their instance.
      query: { t: key.endsWith(FILES) ? UNMOUNT : 0 },
      attempted: `Cannot ${action} a companion`,
    });
  const drop = (path: string, query: Record<string, boolean>) =>
    client.run({ method: "DELETE", path, query, attempted: "Cannot remove a companion" })
      .catch(ignoringMissing);
  const makeVolume = ({ key, deployment }: CaredFor) =>
    client.json<{ Mountpoint: string }>({
      method: "POST",
      path: "/volumes/create",
      json: { Name: volumeOf(key), Driver: "local", Labels: labelled(deployment, key) },
      attempted: "Cannot make the volume of a companion",
    });
  const make = (
    { of: { key, deployment }, image, env, config }: Omit<CompanionRequest, "container">,
    hostConfig: Record<string, unknown>,
  ) =>
    client.run({
      path: "/containers/create",
      query: { name: containerOf(key) },
      attempted: `Cannot make the companion of ${deployment}`,
      json: {
        Image: image.id,
        Cmd: ["caretaker"],
        Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
        Labels: { ...labelled(deployment, key), [COMPANION_CONFIG]: config },
        HostConfig: { ...APART, ...hostConfig },
      },
    });
  return {
    folder: SHARED,
    async prepare(of) {
      await makeVolume(of);
      return volumeOf(of.key);
    },
    async create({ container, ...request }) {
      await make(request, {
        NetworkMode: `container:${container}`,
        Mounts: [{ Type: "volume", Source: volumeOf(request.of.key), Target: SHARED }],
      });
    },
    async mount(request) {
      // By its folder: volumes carry no mounts to the host.
      const { Mountpoint } = await makeVolume(request.of);
      await make(request, {
        Mounts: [{
          ...{ Type: "bind", Source: Mountpoint, Target: COMPANION_MOUNTS },
          BindOptions: { Propagation: "rshared" },
        }],
        CapAdd: ["SYS_ADMIN"],
        Devices: [{
          ...{ PathOnHost: "/dev/fuse", PathInContainer: "/dev/fuse", CgroupPermissions: "rwm" },
        }],
        // AppArmor's profile for containers permits no mount.
        SecurityOpt: [...APART.SecurityOpt, "apparmor=unconfined"],
      });
      await act(request.of.key, "restart");
      return Mountpoint;
    },
    async look(key) {
      const found = await client.json<Inspected>({
        path: `/containers/${containerOf(key)}/json`,
        attempted: "Cannot look at a companion",
      }).catch(ignoringMissing);
      // One of that name that somebody else made is not looked at: making it then fails with the engine's words.
      if (!found || found.Config.Labels?.[COMPANION_SERVER] !== server) return undefined;
      const { State: { Running, StartedAt }, RestartCount, Config: { Labels } } = found;
      return {
        running: Running,
        startedAt: StartedAt,
        restarts: RestartCount,
        config: Labels?.[COMPANION_CONFIG] ?? "",
      };
    },
    restart: (key) => act(key, "restart"),
    stop: (key) => act(key, "stop"),
    async remove(key, withVolume) {
      if (key.endsWith(FILES)) await act(key, "stop").catch(ignoringMissing);
      await drop(`/containers/${containerOf(key)}`, { force: true, v: true });
      if (withVolume) await drop(`/volumes/${volumeOf(key)}`, { force: false });
    },
    async list(deployment) {
      const label = [`${COMPANION_SERVER}=${server}`, `${COMPANION_DEPLOYMENT}=${deployment}`];
      const attempted = "Cannot list the companions";
      const [containers, { Volumes }] = await Promise.all([
        client.json<{ Labels: Record<string, string> }[]>({
          path: "/containers/json",
          query: { all: true, filters: { label } },
          attempted,
        }),
        client.json<{ Volumes?: { Labels?: Record<string, string> | null }[] | null }>({
          path: "/volumes",
          query: { filters: { label } },
          attempted,
        }),
      ]);
      const labels = [...containers, ...Volumes ?? []].map(({ Labels }) => Labels?.[COMPANION_KEY]);
      return [...new Set(labels.filter((key) => key !== undefined))];
    },
    lastWords: (key) => lastWords(client, containerOf(key)),
  };
}
