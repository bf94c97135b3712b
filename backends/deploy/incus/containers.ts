/** The instances of deployments, as Incus makes, starts, stops and removes them. */
import { SvcError } from "../../../lib/base/errors.ts";
import { SIGKILL } from "../../../lib/base/signals.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import { choosePorts } from "../../../lib/deploy/host/host_ports.ts";
import type { ContainerPlan } from "../../../lib/deploy/container_config.ts";
import type { RestartRule } from "../../../lib/deploy/restarts.ts";
import { isGone } from "../../../lib/docker/errors.ts";
import type { Devices, Instance } from "../../../lib/incus/types.ts";
import type { ContainerCalls, ContainerRequest } from "../shared/engine_api/engine.ts";
import type { RestartPolicy } from "../shared/engine_api/inspect.ts";
import { instanceId } from "../shared/engine_api/record.ts";
import type { EngineWatch } from "../shared/engine_api/watch.ts";
import { refusalOf } from "../../../lib/deploy/refused_exec.ts";
import { needsShell } from "./entrypoint.ts";
import { obstacle, userIn } from "./exec.ts";
import { pullFailure, sourceOf } from "./image.ts";
import {
  configOfInstance,
  devicesOf,
  HALTED,
  maskedNics,
  planOf,
  RESTART,
  STOP_SIGNAL,
} from "./instance.ts";
import { requireRoom } from "./networks.ts";
import { type IncusPlace, instanceName } from "./place.ts";
import type { IncusSource } from "./source.ts";

/** Incus's refusal of an instance as an error of the deployment. */
function refused(error: unknown, { spec: { name }, replica }: ContainerRequest): unknown {
  if (!(error instanceof SvcError) || isGone(error)) return error;
  if (!["upstream_failed", "argument_invalid", "conflict", "not_found"].includes(error.code)) {
    return error;
  }
  const words = error.message.slice(error.message.indexOf(": ") + 2);
  if (/address already in use|failed to listen/i.test(words)) {
    return new SvcError("port_in_use", `Cannot deploy ${name}: ${words}`, { cause: error });
  }
  return new SvcError(
    "deploy_failed",
    `Cannot deploy ${name}: instance ${instanceId(name, replica)} did not start: ${words}`,
    { cause: error, help: "see the daemon's words above" },
  );
}

/** Milliseconds that an address may take, between looks whether there is one left, and between looks. */
const ADDRESS_MS = 15_000;
const FULL_MS = 2000;
const LOOK_MS = 25;

const isMissing = (error: unknown) => error instanceof SvcError && error.code === "not_found";

export interface IncusContainersParts {
  place: IncusPlace;
  watch: EngineWatch;
  source: IncusSource;
}

export class IncusContainers implements ContainerCalls {
  readonly #parts: IncusContainersParts;

  constructor(parts: IncusContainersParts) {
    this.#parts = parts;
  }

  async create(request: ContainerRequest, key: string, signal?: AbortSignal): Promise<string> {
    const { client } = this.#parts.place;
    const { spec } = request;
    const name = instanceName(key);
    const attempted = `Cannot deploy ${spec.name}`;
    try {
      const plan = planOf(request);
      const root = { uid: 0, gid: 0, additionalGids: [], home: "/root" };
      const devices = await this.#devices(request);
      await this.#pull(request, {
        name,
        type: "container",
        profiles: ["default"],
        config: configOfInstance(request, plan, name, root),
        devices,
      }, signal);
      try {
        const user = await userIn(client, name, plan.user);
        await this.#requirePrograms(request, name, plan);
        await this.#amend(name, (config) => ({
          // Without the image's own: Incus may know another image of the same layers.
          ...Object.fromEntries(
            Object.entries(config).filter(([key]) => !/^(environment|oci)\./.test(key)),
          ),
          ...configOfInstance(request, plan, name, user),
        }), attempted);
      } catch (error) {
        await this.remove(name);
        throw error;
      }
      return name;
    } catch (error) {
      throw refused(error, request);
    }
  }

  /** Incus does not tell that a program is missing. What is mounted over the image is not seen yet. */
  async #requirePrograms(
    { spec, replica }: ContainerRequest,
    name: string,
    { args, env, workingDir }: ContainerPlan,
  ): Promise<void> {
    if (spec.mounts.length > 0 || spec.volumes.length > 0) return;
    const [program] = args;
    const instance = instanceId(spec.name, replica);
    const path = env.find((line) => line.startsWith("PATH="))?.slice("PATH=".length) ?? "";
    const place = { client: this.#parts.place.client, name, instance };
    const look = { cwd: workingDir, path };
    if (needsShell({ args, env }) && await obstacle(place, "sh", look) !== undefined) {
      throw new SvcError(
        "unsupported",
        `Cannot deploy ${spec.name}: the image has no sh, by which Incus is given what has several lines`,
        { help: "leave out line breaks in command and env, or use an image with sh" },
      );
    }
    const code = await obstacle(place, program, look);
    if (code === undefined) return;
    throw new SvcError(
      "deploy_failed",
      `Cannot deploy ${spec.name}: instance ${instance} cannot run ${program}: ${refusalOf(code)}`,
      { help: "correct command or entrypoint" },
    );
  }

  /** Makes the instance, for which the daemon pulls the image where it has not got it. */
  async #pull(
    { spec: { name }, image }: ContainerRequest,
    body: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<void> {
    const { client, insecure } = this.#parts.place;
    const attempted = `Cannot deploy ${name}`;
    try {
      await client.change({
        path: "/instances",
        json: { ...body, source: sourceOf(image, insecure) },
        attempted,
        signal,
      });
    } catch (error) {
      throw pullFailure(error, attempted, image.name, insecure) ?? error;
    }
  }

  async #devices(request: ContainerRequest): Promise<Devices> {
    const { client, pool } = this.#parts.place;
    const { spec, replica, rehearsal, attachments } = request;
    // A host port leads to one instance: replica 0.
    const publishes = replica === 0 && !rehearsal && attachments.kind === "networks";
    const known = spec.ports.filter(({ protocol }) => protocol !== "sctp");
    return devicesOf(request, {
      ports: publishes ? await choosePorts(known) : [],
      pool,
      masked: await maskedNics(client, `Cannot deploy ${spec.name}`),
    });
  }

  /** Changes an instance's configuration. */
  async #amend(
    name: string,
    change: (config: Record<string, string>) => Record<string, string>,
    attempted: string,
  ): Promise<void> {
    const { client } = this.#parts.place;
    const path = `/instances/${name}`;
    const found = await client.get<Instance>({ path, attempted });
    const json = { ...found, config: change(found.config) };
    await client.change({ method: "PUT", path, json, attempted });
  }

  async begin(container: string, request: ContainerRequest, signal?: AbortSignal): Promise<void> {
    const { spec: { name }, replica } = request;
    try {
      await this.#start(container, signal);
    } catch (error) {
      throw refused(error, request);
    }
    const attempted = `Cannot deploy ${name}: instance ${instanceId(name, replica)}`;
    await this.#addressed(container, attempted, signal);
  }

  async start(container: string, signal?: AbortSignal): Promise<void> {
    await this.#start(container, signal);
    await this.#addressed(container, "Cannot start an instance", signal);
  }

  async #start(container: string, signal?: AbortSignal): Promise<void> {
    const told = this.#parts.watch.expect(container, "start");
    await this.#halted(container, false);
    await this.#state(
      container,
      { action: "start", timeout: -1 },
      "Cannot start an instance",
      signal,
    )
      .catch((error) => {
        // The second: it has ended already, which its state tells.
        if (!/already running|bad file descriptor/.test(String(error))) throw error;
      });
    await told();
  }

  /**
   * Incus asks for addresses once the instance runs: waits until each network has given one. Throws `conflict` where
   * one has none left.
   */
  async #addressed(container: string, attempted: string, signal?: AbortSignal): Promise<void> {
    const { place: { client }, watch } = this.#parts;
    const begun = performance.now();
    for (let full = FULL_MS, ran = 0; ran < ADDRESS_MS; ran = performance.now() - begun) {
      const found = await watch.look(container, signal);
      if (!found?.State.Running) return;
      const networks = Object.entries(found.NetworkSettings.Networks ?? {});
      const without = networks.filter(([, one]) => !one.IPAddress && !one.GlobalIPv6Address);
      if (without.length === 0) return;
      if (ran > full) {
        for (const [id] of without) await requireRoom(client, id, attempted, signal);
        full += FULL_MS;
      }
      await sleep(LOOK_MS, signal);
    }
  }

  async #state(
    name: string,
    json: { action: string; timeout: number; force?: boolean },
    attempted: string,
    signal?: AbortSignal,
  ): Promise<void> {
    const { client } = this.#parts.place;
    await client.change({
      method: "PUT",
      path: `/instances/${name}/state`,
      json,
      attempted,
      signal,
    });
  }

  /** Puts on record whether it was stopped on purpose, for a later server. */
  async #halted(name: string, halted: boolean): Promise<void> {
    this.#parts.source.keeper(name)?.halt(halted);
    const { client } = this.#parts.place;
    await client.change({
      method: "PATCH",
      path: `/instances/${name}`,
      json: { config: { [HALTED]: halted ? "1" : "" } },
      attempted: "Cannot change an instance",
    });
  }

  async stop(container: string, seconds: number): Promise<void> {
    const attempted = "Cannot stop an instance";
    const told = this.#parts.watch.expect(container, "die");
    try {
      await this.#halted(container, true);
      const { client } = this.#parts.place;
      const { config } = await client.get<Instance>({ path: `/instances/${container}`, attempted });
      const force = seconds === 0 || config[STOP_SIGNAL] === String(SIGKILL);
      await this.#end(container, force ? 0 : seconds);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    await told();
  }

  /** Ends what runs: asks for it first where it is given time. */
  async #end(name: string, seconds: number): Promise<void> {
    const attempted = "Cannot stop an instance";
    const over = (error: unknown) => {
      if (!/already stopped|not running|isn't running/.test(String(error))) throw error;
    };
    if (seconds > 0) {
      try {
        await this.#state(name, { action: "stop", timeout: seconds }, attempted).catch(over);
        return;
      } catch {
        // It did not end in time.
      }
    }
    const keeper = this.#parts.source.keeper(name);
    if (keeper) keeper.forced = true;
    const probeAgain = await keeper?.unprobed();
    try {
      await this.#state(name, { action: "stop", timeout: -1, force: true }, attempted).catch(over);
    } finally {
      // Of what ended nothing is probed.
      probeAgain?.();
    }
  }

  async remove(container: string): Promise<void> {
    const told = this.#parts.watch.expect(container, "destroy");
    this.#parts.source.keeper(container)?.halt(true);
    const { client } = this.#parts.place;
    const attempted = "Cannot remove an instance";
    try {
      await this.#end(container, 0);
      await client.change({ method: "DELETE", path: `/instances/${container}`, attempted });
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    await told();
  }

  /** Its main process gets SIGKILL, and its restart policy follows. */
  async kill(container: string): Promise<void> {
    const keeper = this.#parts.source.keeper(container);
    if (keeper) keeper.killed = true;
    await this.#end(container, 0);
  }

  async supervise(container: string, { Name, MaximumRetryCount }: RestartPolicy): Promise<void> {
    const policy = Name as RestartRule["policy"];
    const maxAttempts = MaximumRetryCount || undefined;
    const rule = policy === "no" ? "" : JSON.stringify({ policy, maxAttempts });
    const { client } = this.#parts.place;
    await client.change({
      method: "PATCH",
      path: `/instances/${container}`,
      json: { config: { [RESTART]: rule } },
      attempted: "Cannot set an instance's restart policy",
    });
    this.#parts.source.keeper(container)?.follow(rule);
  }
}
