/** Connections to a deployment's containers. */
import { SvcError } from "../../../../lib/base/errors.ts";
import { dialInTurn } from "../../../../lib/wire/dial.ts";
import type { Duplex } from "../../../../lib/wire/duplex.ts";
import { connectWithin } from "../../../../lib/wire/socket_within.ts";
import type { Deployment } from "./deployment.ts";
import type { DeployEngine } from "./engine.ts";
import { addressOf, type Inspected, isActive, isReady, runs } from "./inspect.ts";
import type { EngineNamespaces } from "./namespaces.ts";

interface Wanted {
  /** "Cannot connect to deployment web". */
  attempted: string;
  port: number;
  protocol: "tcp" | "udp";
  signal?: AbortSignal;
}

export class Dialer {
  readonly #engine: Pick<DeployEngine, "requireReachable">;
  readonly #namespaces: Pick<EngineNamespaces, "pathOf"> | undefined;
  /** Counts the connections, so that replicas take turns. */
  #turn = 0;

  constructor(
    engine: Pick<DeployEngine, "requireReachable">,
    namespaces?: Pick<EngineNamespaces, "pathOf">,
  ) {
    this.#engine = engine;
    this.#namespaces = namespaces;
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
    if (found.length === 0) {
      const why = instances.some((one) => one.found && isActive(one.found))
        ? "it is about to be restarted"
        : "no instance runs";
      throw new SvcError("conflict", `${attempted}: ${why}`, {
        help: "start the deployment first",
      });
    }
    const ready = found.filter(isReady);
    const chosen = ready.length > 0 ? ready : found;
    const wanted = { attempted, port, protocol, signal };
    const inside = await this.#inside(chosen, wanted);
    if (inside) return inside;
    await this.#engine.requireReachable?.(attempted, found, signal);
    const addresses = chosen.flatMap((one) =>
      one.HostConfig.NetworkMode === "host" ? "127.0.0.1" : addressOf(one) ?? []
    );
    if (addresses.length === 0) {
      throw new SvcError("conflict", `${attempted}: it has no network`);
    }
    return await dialInTurn(addresses, this.#turn++, port, protocol, signal);
  }

  /** To the loopback of a container that is on no network because its egress is relayed. */
  async #inside(
    found: readonly Inspected[],
    { attempted, port, protocol, signal = new AbortController().signal }: Wanted,
  ): Promise<Duplex | undefined> {
    const paths = found.flatMap(({ Id, HostConfig: { NetworkMode } }) =>
      NetworkMode === "none" ? this.#namespaces?.pathOf(Id) ?? [] : []
    );
    if (paths.length === 0) return undefined;
    if (protocol === "udp") {
      throw new SvcError("unsupported", `${attempted}: its egress is relayed, and takes TCP alone`);
    }
    const netns = paths[this.#turn++ % paths.length];
    return await connectWithin(netns, { address: "127.0.0.1", port, signal });
  }
}
