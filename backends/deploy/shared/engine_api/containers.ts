/** The containers of instances, by the Docker Engine API. */
import { SvcError } from "../../../../lib/base/errors.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { daemonStatus, isGone } from "../../../../lib/docker/errors.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import { containerBody, type DockerRequest, endpointConfig } from "./container.ts";
import type { CompanionCalls, ContainerCalls, ContainerRequest } from "./engine.ts";
import type { RestartPolicy } from "./inspect.ts";
import { instanceId } from "./record.ts";
import type { EngineWatch } from "./watch.ts";

/** Milliseconds beyond the grace period that a stop may take. */
const STOP_SLACK_MS = 120_000;

/** Attempts to remove a container that the engine is busy with. */
const REMOVALS = 10;
/** Attempts to set the policy of a container that is about to end, and milliseconds between them. */
const ATTEMPTS = 50;
const PAUSE_MS = 100;

export const NO_ADDRESS_HELP = "delete deployments on the network, or deploy on another one";

/** The engine's refusal of a container as an error of the deployment. */
function refused(error: unknown, { spec: { name }, replica }: ContainerRequest): unknown {
  if (!(error instanceof SvcError) || daemonStatus(error) === undefined || isGone(error)) {
    return error;
  }
  const words = error.message.slice(error.message.indexOf(": ") + 2);
  if (/port is already allocated|address already in use|bind for .* failed/i.test(words)) {
    return new SvcError("port_in_use", `Cannot deploy ${name}: ${words}`, { cause: error });
  }
  if (/no available IPv\d addresses|failed to find free IP/i.test(words)) {
    return new SvcError(
      "conflict",
      `Cannot deploy ${name}: all addresses of a network are in use: ${words}`,
      { cause: error, help: NO_ADDRESS_HELP },
    );
  }
  if (error.code === "storage_full") {
    const { help } = error;
    return new SvcError("storage_full", `Cannot deploy ${name}: ${words}`, { cause: error, help });
  }
  return new SvcError(
    "deploy_failed",
    `Cannot deploy ${name}: instance ${instanceId(name, replica)} did not start: ${words}`,
    { cause: error, help: "see the engine's words above" },
  );
}

export class Containers implements ContainerCalls {
  readonly #client: DockerClient;
  readonly #watch: EngineWatch;
  readonly #behaviour: EngineBehaviour;
  readonly #companions: Pick<CompanionCalls, "remove">;

  constructor(
    { client, watch, behaviour, companions }: {
      client: DockerClient;
      watch: EngineWatch;
      behaviour: EngineBehaviour;
      companions: Pick<CompanionCalls, "remove">;
    },
  ) {
    this.#client = client;
    this.#watch = watch;
    this.#behaviour = behaviour;
    this.#companions = companions;
  }

  async #complete(asked: ContainerRequest, signal?: AbortSignal): Promise<DockerRequest> {
    const { api } = await this.#client.daemon();
    const { LoggingDriver = "" } = await this.#client.json<{ LoggingDriver?: string }>({
      path: "/info",
      attempted: "Cannot ask the engine for its log driver",
      signal,
    });
    const logDriver = this.#behaviour.logDriver(LoggingDriver);
    return { ...asked, api, logDriver, probed: this.#behaviour.probe !== undefined };
  }

  async create(asked: ContainerRequest, key: string, signal?: AbortSignal): Promise<string> {
    const { attachments, spec: { name } } = asked;
    const attempted = `Cannot deploy ${name}`;
    const request = await this.#complete(asked, signal);
    try {
      signal?.throwIfAborted();
      // Not ended by the signal: the engine would go on, and nobody would know the container.
      const { Id } = await this.#client.json<{ Id: string }>({
        path: "/containers/create",
        query: { name: key },
        json: containerBody(request),
        attempted,
      });
      const more = attachments.kind === "networks" ? attachments.networks.slice(1) : [];
      try {
        signal?.throwIfAborted();
        for (const { id, spec } of more) {
          await this.#client.run({
            path: `/networks/${id}/connect`,
            json: { Container: Id, EndpointConfig: endpointConfig(request, spec) },
            attempted,
            signal,
          });
        }
      } catch (error) {
        await this.remove(Id);
        throw error;
      }
      return Id;
    } catch (error) {
      throw refused(error, request);
    }
  }

  async begin(container: string, request: ContainerRequest, signal?: AbortSignal): Promise<void> {
    try {
      await this.start(container, signal);
    } catch (error) {
      throw refused(error, request);
    }
  }

  async start(container: string, signal?: AbortSignal): Promise<void> {
    await this.#watch.starts.about(container);
    const told = this.#watch.expect(container, "start");
    await this.#client.run({
      method: "POST",
      path: `/containers/${container}/start`,
      attempted: "Cannot start a container",
      signal,
    });
    await told();
  }

  async stop(container: string, seconds: number): Promise<void> {
    // Docker thaws it itself, podman refuses.
    if (this.#watch.state(container)?.State.Paused) await this.#thaw(container);
    const told = this.#watch.expect(container, "die");
    for (let refusals = 0;;) {
      try {
        await this.#client.run({
          method: "POST",
          path: `/containers/${container}/stop`,
          query: { t: seconds },
          attempted: "Cannot stop a container",
          headMs: seconds * 1000 + STOP_SLACK_MS,
        }).catch(unlessGone);
        return await told();
      } catch (error) {
        // It is paused, which has not been told yet.
        if (!/running or paused/.test(String(error)) || ++refusals === REMOVALS) throw error;
        await this.#thaw(container);
      }
    }
  }

  async #thaw(container: string): Promise<void> {
    await this.#client.run({
      method: "POST",
      path: `/containers/${container}/unpause`,
      attempted: "Cannot thaw a container",
    }).catch((error) => {
      // It has been thawed, or is gone.
      if (!(error instanceof SvcError) || !["conflict", "not_found"].includes(error.code)) {
        throw error;
      }
    });
  }

  async remove(container: string): Promise<void> {
    const told = this.#watch.expect(container, "destroy");
    for (let refusals = 0;;) {
      try {
        await this.#client.run({
          method: "DELETE",
          path: `/containers/${container}`,
          query: { force: true, v: true },
          ...this.#behaviour.removal?.(container),
          attempted: "Cannot remove a container",
        }).catch(unlessGone);
        return await told();
      } catch (error) {
        if (daemonStatus(error) === 409 && /in progress/.test(String(error))) {
          // Somebody else removes it at this moment: it is gone once they are done.
          await this.#gone(container);
          continue;
        }
        // An engine that starts, ends or cleans it up at this moment.
        if (daemonStatus(error) === undefined || ++refusals === REMOVALS) throw error;
        // Podman removes no container whose network another one shares.
        if (/has dependent containers/.test(String(error))) await this.#dropCompanion(container);
        await sleep(PAUSE_MS);
      }
    }
  }

  /** A person's own container that shares the network is left, and the engine's refusal is told. */
  async #dropCompanion(container: string): Promise<void> {
    const found = await this.#watch.look(container);
    if (found) await this.#companions.remove(found.Name.replace(/^\//, ""));
  }

  async #gone(container: string): Promise<void> {
    await this.#client.run({
      method: "POST",
      path: `/containers/${container}/wait`,
      query: { condition: "removed" },
      attempted: "Cannot wait for a container's removal",
    }).catch(unlessGone);
  }

  async supervise(
    container: string,
    policy: RestartPolicy,
    signal?: AbortSignal,
  ): Promise<void> {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#client.run({
          path: `/containers/${container}/update`,
          json: { RestartPolicy: policy },
          attempted: "Cannot set a container's restart policy",
          signal,
        });
      } catch (error) {
        // It ends at this moment. Of one that has ended the policy can be set.
        if (attempt === ATTEMPTS || !/stopped container|not running/.test(String(error))) {
          throw error;
        }
        await sleep(PAUSE_MS, signal);
      }
    }
  }
}

function unlessGone(error: unknown): void {
  if (daemonStatus(error) !== 404) throw error;
}
