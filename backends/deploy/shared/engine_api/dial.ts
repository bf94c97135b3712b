/** Connections to a deployment's containers. */
import { SvcError } from "../../../../lib/base/errors.ts";
import { dialInTurn } from "../../../../lib/deploy/host/dial.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import type { Duplex } from "../../../../lib/wire/duplex.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import type { Deployment } from "./deployment.ts";
import { addressOf, type Inspected, isActive, runs } from "./inspect.ts";

export class Dialer {
  readonly #client: DockerClient;
  readonly #behaviour: EngineBehaviour;
  /** Counts the connections, so that replicas take turns. */
  #turn = 0;

  constructor(client: DockerClient, behaviour: EngineBehaviour) {
    this.#client = client;
    this.#behaviour = behaviour;
  }

  /** See {@linkcode DeployBackend.dial}. */
  async dial(
    { name, instances }: Deployment,
    port: number,
    protocol: "tcp" | "udp",
    signal?: AbortSignal,
  ): Promise<Duplex> {
    const attempted = `Cannot connect to deployment ${name}`;
    const found = instances.flatMap((one) => one.found ?? []).filter(runs);
    await this.#behaviour.requireReachable?.(this.#client, attempted, found, signal);
    if (found.length === 0) {
      const why = instances.some((one) => one.found && isActive(one.found))
        ? "it is about to be restarted"
        : "no instance runs";
      throw new SvcError("conflict", `${attempted}: ${why}`, {
        help: "start the deployment first",
      });
    }
    const ready = found.filter(isReady);
    const addresses = (ready.length > 0 ? ready : found).flatMap((one) =>
      one.HostConfig.NetworkMode === "host" ? "127.0.0.1" : addressOf(one) ?? []
    );
    if (addresses.length === 0) {
      throw new SvcError("conflict", `${attempted}: it has no network`);
    }
    return await dialInTurn(addresses, this.#turn++, port, protocol, signal);
  }
}

/** Healthy, where there is a health check. */
function isReady({ State }: Inspected): boolean {
  const health = State.Health?.Status ?? "none";
  return health === "none" || health === "healthy";
}
