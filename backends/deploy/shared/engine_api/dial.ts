/** Connections to a deployment's containers. */
import { SvcError } from "../../../../lib/base/errors.ts";
import { dialInTurn } from "../../../../lib/wire/dial.ts";
import type { Duplex } from "../../../../lib/wire/duplex.ts";
import type { Deployment } from "./deployment.ts";
import type { DeployEngine } from "./engine.ts";
import { addressOf, isActive, isReady, runs } from "./inspect.ts";

export class Dialer {
  readonly #engine: Pick<DeployEngine, "requireReachable">;
  /** Counts the connections, so that replicas take turns. */
  #turn = 0;

  constructor(engine: Pick<DeployEngine, "requireReachable">) {
    this.#engine = engine;
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
    await this.#engine.requireReachable?.(attempted, found, signal);
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
