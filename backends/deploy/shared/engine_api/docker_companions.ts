/** Companions as containers of an engine with the Docker Engine API. */
import { ignoringMissing } from "../../../../lib/docker/errors.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { COMPANION_MOUNTS } from "../../../../lib/api/caretaker.ts";
import type { CaredFor } from "../../../../lib/deploy/caretakers.ts";
import { COMPANION_PIDS } from "../../../../lib/deploy/companions.ts";
import { lastWords } from "../../../../lib/docker/last_words.ts";
import type { CompanionCalls, CompanionRequest, CompanionState } from "./engine.ts";
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

export class DockerCompanions implements CompanionCalls {
  readonly folder = SHARED;
  readonly mount?: CompanionCalls["mount"];
  readonly #client: DockerClient;
  readonly #server: string;

  /** `server`: identity of the server's data directory. */
  constructor(client: DockerClient, server: string, { mounts }: { mounts: boolean }) {
    this.#client = client;
    this.#server = server;
    if (mounts) this.mount = (request) => this.#mount(request);
  }

  #labelled(deployment: string, key: string) {
    return {
      [COMPANION_SERVER]: this.#server,
      [COMPANION_DEPLOYMENT]: deployment,
      [COMPANION_KEY]: key,
    };
  }

  async #act(key: string, action: "restart" | "stop"): Promise<void> {
    await this.#client.run({
      method: "POST",
      path: `/containers/${containerOf(key)}/${action}`,
      // Others have nothing to end in good order: what they served is gone with their instance.
      query: { t: key.endsWith(FILES) ? UNMOUNT : 0 },
      attempted: `Cannot ${action} a companion`,
    });
  }

  async #drop(path: string, query: Record<string, boolean>): Promise<void> {
    await this.#client.run({
      method: "DELETE",
      path,
      query,
      attempted: "Cannot remove a companion",
    })
      .catch(ignoringMissing);
  }

  async #makeVolume({ key, deployment }: CaredFor): Promise<{ Mountpoint: string }> {
    return await this.#client.json({
      method: "POST",
      path: "/volumes/create",
      json: { Name: volumeOf(key), Driver: "local", Labels: this.#labelled(deployment, key) },
      attempted: "Cannot make the volume of a companion",
    });
  }

  async #make(
    { of: { key, deployment }, image, env, config }: Omit<CompanionRequest, "container">,
    hostConfig: Record<string, unknown>,
  ): Promise<void> {
    await this.#client.run({
      path: "/containers/create",
      query: { name: containerOf(key) },
      attempted: `Cannot make the companion of ${deployment}`,
      json: {
        Image: image.id,
        Cmd: ["caretaker"],
        Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
        Labels: { ...this.#labelled(deployment, key), [COMPANION_CONFIG]: config },
        HostConfig: { ...APART, ...hostConfig },
      },
    });
  }

  async prepare(of: CaredFor): Promise<string> {
    await this.#makeVolume(of);
    return volumeOf(of.key);
  }

  async create({ container, ...request }: CompanionRequest): Promise<void> {
    await this.#make(request, {
      NetworkMode: `container:${container}`,
      Mounts: [{ Type: "volume", Source: volumeOf(request.of.key), Target: SHARED }],
    });
  }

  async #mount(request: Omit<CompanionRequest, "container">): Promise<string> {
    // By its folder: volumes carry no mounts to the host.
    const { Mountpoint } = await this.#makeVolume(request.of);
    await this.#make(request, {
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
    await this.#act(request.of.key, "restart");
    return Mountpoint;
  }

  async look(key: string): Promise<CompanionState | undefined> {
    const found = await this.#client.json<Inspected>({
      path: `/containers/${containerOf(key)}/json`,
      attempted: "Cannot look at a companion",
    }).catch(ignoringMissing);
    // One of that name that somebody else made is not looked at: making it then fails with the engine's words.
    if (!found || found.Config.Labels?.[COMPANION_SERVER] !== this.#server) return undefined;
    const { State: { Running, StartedAt }, RestartCount, Config: { Labels } } = found;
    return {
      running: Running,
      startedAt: StartedAt,
      restarts: RestartCount,
      config: Labels?.[COMPANION_CONFIG] ?? "",
    };
  }

  async restart(key: string): Promise<void> {
    await this.#act(key, "restart");
  }

  async stop(key: string): Promise<void> {
    await this.#act(key, "stop");
  }

  async remove(key: string, withVolume?: boolean): Promise<void> {
    if (key.endsWith(FILES)) await this.stop(key).catch(ignoringMissing);
    await this.#drop(`/containers/${containerOf(key)}`, { force: true, v: true });
    if (withVolume) await this.#drop(`/volumes/${volumeOf(key)}`, { force: false });
  }

  async list(deployment: string): Promise<string[]> {
    const label = [`${COMPANION_SERVER}=${this.#server}`, `${COMPANION_DEPLOYMENT}=${deployment}`];
    const attempted = "Cannot list the companions";
    const [containers, { Volumes }] = await Promise.all([
      this.#client.json<{ Labels: Record<string, string> }[]>({
        path: "/containers/json",
        query: { all: true, filters: { label } },
        attempted,
      }),
      this.#client.json<{ Volumes?: { Labels?: Record<string, string> | null }[] | null }>({
        path: "/volumes",
        query: { filters: { label } },
        attempted,
      }),
    ]);
    const labels = [...containers, ...Volumes ?? []].map(({ Labels }) => Labels?.[COMPANION_KEY]);
    return [...new Set(labels.filter((key) => key !== undefined))];
  }

  async lastWords(key: string): Promise<string> {
    return await lastWords(this.#client, containerOf(key));
  }
}
