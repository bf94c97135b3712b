/**
 * Companions as instances of Incus, in the network of their instance. LXC looks the instance up by its name whenever
 * the companion starts: one whose instance does not run does not start either.
 */
import { SvcError } from "../../../lib/base/errors.ts";
import type { CaredFor } from "../../../lib/deploy/caretakers.ts";
import { COMPANION_PIDS } from "../../../lib/deploy/companions.ts";
import type { ContainerConfig } from "../../../lib/oci/types.ts";
import type { Instance, Volume } from "../../../lib/incus/types.ts";
import type {
  CompanionCalls,
  CompanionRequest,
  CompanionState,
} from "../shared/engine_api/engine.ts";
import {
  COMPANION_CONFIG,
  COMPANION_DEPLOYMENT,
  COMPANION_KEY,
  COMPANION_SERVER,
} from "../shared/engine_api/labels.ts";
import { processOf } from "./entrypoint.ts";
import { pullFailure, sourceOf } from "./image.ts";
import { isRunning } from "./inspect.ts";
import { AGENTS, APART, maskedNics } from "./instance.ts";
import { configOf, type IncusPlace, instanceName, keyOf, labelsOf } from "./place.ts";
import { makeVolume, removeVolume, volumesIn } from "./volumes.ts";

/** Lines and characters that an error quotes. */
const LINES = 5;
const CHARACTERS = 2000;
/** The extension of the API by which Incus starts an instance again that has ended by itself. */
const AUTO_RESTART = "instance_auto_restart";

const companionOf = (key: string) => instanceName(`${key}-caretaker`);
const volumeOf = (key: string) => instanceName(`${key}-agents`);

const ignoringMissing = (error: unknown): undefined => {
  if (!(error instanceof SvcError) || error.code !== "not_found") throw error;
};

export class IncusCompanions implements CompanionCalls {
  readonly folder = AGENTS;
  readonly #place: IncusPlace;

  constructor(place: IncusPlace) {
    this.#place = place;
  }

  #labelled(deployment: string, key: string) {
    return {
      [COMPANION_SERVER]: this.#place.server,
      [COMPANION_DEPLOYMENT]: deployment,
      [COMPANION_KEY]: key,
    };
  }

  /** Undefined, too, for one of that name that somebody else made: making it then fails with the daemon's words. */
  async #find(key: string): Promise<Instance | undefined> {
    const found = await this.#place.client.get<Instance>({
      path: `/instances/${companionOf(key)}`,
      attempted: "Cannot look at a companion",
    }).catch(ignoringMissing);
    return found?.config[keyOf(COMPANION_SERVER)] === this.#place.server ? found : undefined;
  }

  async #act(key: string, action: "start" | "stop"): Promise<void> {
    await this.#place.client.change({
      method: "PUT",
      path: `/instances/${companionOf(key)}/state`,
      // It has nothing to end in good order: what it served is gone with its instance.
      json: { action, force: action === "stop", timeout: -1 },
      attempted: `Cannot ${action} a companion`,
    });
  }

  async prepare({ key, deployment }: CaredFor): Promise<string> {
    const attempted = "Cannot make the volume of a companion";
    const name = volumeOf(key);
    const there = (await volumesIn(this.#place, attempted)).find((one) => one.name === name);
    if (there?.config[keyOf(COMPANION_SERVER)] === this.#place.server) return name;
    const config = configOf(this.#labelled(deployment, key));
    await makeVolume(this.#place, { name, config, attempted });
    return name;
  }

  async create({ of: { key, deployment }, container, image, env, config }: CompanionRequest) {
    const { client, pool, insecure } = this.#place;
    const attempted = `Cannot make the companion of ${deployment}`;
    const { api_extensions } = await client.server();
    const { Entrypoint = [], Env = [], WorkingDir }: ContainerConfig = image.config ?? {};
    const lines = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const json = {
      name: companionOf(key),
      type: "container",
      profiles: ["default"],
      source: sourceOf(image, insecure),
      config: {
        ...APART,
        ...configOf({ ...this.#labelled(deployment, key), [COMPANION_CONFIG]: config }),
        ...processOf({ args: [...Entrypoint, "caretaker"], env: [...Env, ...lines] }),
        "oci.cwd": WorkingDir || "/",
        "oci.uid": "0",
        "oci.gid": "0",
        "limits.processes": String(COMPANION_PIDS),
        // The server starts it, with its instance; what ends by itself comes back.
        "boot.autostart": "false",
        ...(api_extensions.includes(AUTO_RESTART) && { "boot.autorestart": "true" }),
        "raw.lxc": besideOf(client.project, container),
      },
      devices: {
        ...await maskedNics(client, attempted),
        agents: { type: "disk", pool, source: volumeOf(key), path: AGENTS },
      },
    };
    await client.change({ path: "/instances", json, attempted }).catch((error) => {
      throw pullFailure(error, attempted, image.name, insecure) ?? error;
    });
  }

  async look(key: string): Promise<CompanionState | undefined> {
    const found = await this.#find(key);
    return found && {
      running: isRunning(found),
      startedAt: found.last_used_at,
      // Incus does not count them.
      restarts: 0,
      config: labelsOf(found.config)[COMPANION_CONFIG] ?? "",
    };
  }

  async restart(key: string): Promise<void> {
    await this.stop(key);
    await this.#act(key, "start");
  }

  async stop(key: string): Promise<void> {
    const found = await this.#find(key);
    if (!found || !isRunning(found)) return;
    await this.#act(key, "stop").catch((error) => {
      if (!/already stopped|not running|isn't running/.test(String(error))) throw error;
    });
  }

  async remove(key: string, withVolume?: boolean): Promise<void> {
    await this.stop(key);
    if (await this.#find(key)) {
      await this.#place.client.change({
        method: "DELETE",
        path: `/instances/${companionOf(key)}`,
        attempted: "Cannot remove a companion",
      }).catch(ignoringMissing);
    }
    if (!withVolume) return;
    await removeVolume(this.#place, volumeOf(key), "Cannot remove the volume of a companion")
      .catch(ignoringMissing);
  }

  async list(deployment: string): Promise<string[]> {
    const { client, server } = this.#place;
    const attempted = "Cannot list the companions";
    const [instances, volumes] = await Promise.all([
      client.get<Pick<Instance, "config">[]>({
        path: "/instances",
        query: { recursion: 1 },
        attempted,
      }),
      volumesIn(this.#place, attempted),
    ]);
    const keys = [...instances, ...volumes as Pick<Volume, "config">[]]
      .map(({ config }) => labelsOf(config))
      .filter((labels) =>
        labels[COMPANION_SERVER] === server && labels[COMPANION_DEPLOYMENT] === deployment
      )
      .map((labels) => labels[COMPANION_KEY]);
    return [...new Set(keys)];
  }

  async lastWords(key: string): Promise<string> {
    const { body } = await this.#place.client.raw({
      path: `/instances/${companionOf(key)}/console`,
      attempted: "Cannot read what a companion printed",
    });
    const text = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).text();
    return text.trim().split(/\r*\n/).slice(-LINES).join("\n").slice(-CHARACTERS);
  }
}

/**
 * Has LXC put the companion into the network of the instance, which LXC has another name for in another project. It
 * has users of its own: so it cannot mount /sys, nor set what is the network's.
 */
function besideOf(project: string, instance: string): string {
  const name = project === "default" ? instance : `${project}_${instance}`;
  return [
    `lxc.namespace.share.net = ${name}`,
    "lxc.mount.auto =",
    "lxc.mount.auto = proc:rw",
    "lxc.sysctl =",
  ].join("\n");
}
