/**
 * The egress of deployments on this server: checks what a spec asks for, and plays the companion beside the
 * workloads of engines that tell their namespaces.
 */
import { isIP } from "node:net";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { DEFAULT_EGRESS_PORT, type EgressMode, isRelayed, routesOf } from "../../api/egress.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { nearAddress } from "../../base/near_address.ts";
import type { EgressAbility } from "../../deploy/caps.ts";
import type { WorkloadNamespace, WorkloadNamespaces } from "../../deploy/namespaces.ts";
import { privilegesOf } from "../../deploy/privileges.ts";
import type { Claim, DeployService } from "../../deploy/services.ts";
import { type GatewayPolicy, gatewayPolicy } from "../../egress/gateway.ts";
import { loadEgressPolicy } from "../../egress/load.ts";
import type { EgressPolicy } from "../../egress/policy.ts";
import { addressesFor, firstOf, requireRoute } from "../../egress/reach.ts";
import {
  type EgressDialers,
  type EgressListener,
  EgressRelay,
  proxyListener,
} from "../../egress/relay.ts";
import { dialledByCaller, streamFields } from "../../egress/stream.ts";
import { egressVariables } from "../../egress/variables.ts";
import { ownAddresses } from "../../runtime/own_addresses.ts";
import { withinNetns } from "../../sys/netns.ts";
import type { SessionCallers } from "../../wire/attached/callers.ts";
import { dialDirect } from "../../wire/socks5/direct.ts";
import { transparentListener } from "./transparent.ts";

export interface ServerEgressOptions {
  config: { egressGateway: boolean; egressPolicy?: readonly string[] };
  namespaces: WorkloadNamespaces;
  /** The engine's, for connections straight out; known once a workload runs. */
  ability: () => Promise<EgressAbility | undefined>;
  callers: SessionCallers;
  log: Logger;
}

/** Kinds of lib/deploy/privileges.ts with which a workload can undo its wall, or go around it. */
const UNDOING = new Set(["privileged", "pidMode", "ipcMode", "devices", "capAdd", "securityOpt"]);

function refuse(spec: DeploySpec, why: string, help: string): never {
  throw new SvcError("unsupported", `Cannot deploy ${spec.name}: ${why}`, { help });
}

export class ServerEgress implements DeployService, AsyncDisposable {
  readonly name = "egress";
  readonly #options: ServerEgressOptions;
  readonly #gateway: GatewayPolicy | undefined;
  readonly #attending: AsyncDisposable;

  /** Throws `config_invalid` for an unreadable policy. */
  constructor(options: ServerEgressOptions) {
    const { config, namespaces, log } = options;
    this.#options = options;
    const { egressPolicy: permitted = [] } = config;
    const policy = gatewayPolicy(
      permitted,
      (address) => nearAddress(address, ownAddresses()) !== undefined,
    );
    if (config.egressGateway) {
      this.#gateway = policy;
      if (permitted.length === 0) {
        log.warn("SVC_EGRESS_GATEWAY dials nothing: SVC_EGRESS_POLICY permits nothing");
      }
    } else if (permitted.length > 0) {
      log.warn("SVC_EGRESS_POLICY changes nothing without SVC_EGRESS_GATEWAY");
    }
    this.#attending = namespaces.attendAll((namespace) => this.#enter(namespace));
  }

  async claim(spec: DeploySpec): Promise<Claim> {
    const { egress } = spec;
    const done = { commit: () => {}, release: () => {} };
    if (!egress) return done;
    const relayed = isRelayed(egress);
    const routes = routesOf(egress);
    if (relayed) {
      // What a script decides is known with each connection: a route that is not to be had denies that one.
      if (egress.script === undefined) this.#requireRoutes(spec, routes);
      this.#check(spec);
      await loadEgressPolicy(egress);
    }
    return {
      ...done,
      contribute: () => ({
        env: egressVariables(egress),
        ...(relayed && {
          egress: { mode: egress.mode!, routes: egress.script === undefined ? routes : [] },
        }),
      }),
    };
  }

  #requireRoutes(spec: DeploySpec, routes: readonly string[]): void {
    if (routes.includes("client") && !this.#options.callers.of(spec.name)) {
      refuse(
        spec,
        "the egress route client needs the session of a caller, who dials",
        "deploy with --session, or choose another route",
      );
    }
    if (routes.includes("gateway") && !this.#gateway) {
      refuse(
        spec,
        "the egress route gateway needs a server that is a gateway",
        "start the server with SVC_EGRESS_GATEWAY=1 and SVC_EGRESS_POLICY, or choose another route",
      );
    }
  }

  #check(spec: DeploySpec): void {
    const undoing = privilegesOf(spec).filter(({ kind }) => UNDOING.has(kind));
    if (undoing.length > 0) {
      const kinds = undoing.map(({ kind }) => kind).join(", ");
      refuse(
        spec,
        `with ${kinds} a workload can go around its egress rules`,
        "leave out one of the two",
      );
    }
  }

  /** The relay of one instance. */
  async #enter(
    { spec, path, instance }: WorkloadNamespace,
  ): Promise<AsyncDisposable | undefined> {
    const { egress } = spec;
    if (!egress || !isRelayed(egress)) return undefined;
    const { log } = this.#options;
    const port = egress.listenPort ?? DEFAULT_EGRESS_PORT;
    const policy = await loadEgressPolicy(egress);
    const relay = new EgressRelay({
      listener: await listenBeside({ path, instance, port }, egress.mode),
      policy,
      dialers: this.#dialers(spec, policy),
      onFailure: ({ host, port }, error) =>
        log.debug("a workload's connection was not made", { instance, host, port, error }),
    });
    return {
      [Symbol.asyncDispose]: () => {
        relay[Symbol.dispose]();
        return Promise.resolve();
      },
    };
  }

  /** The server's own decisions: by the spec, by its gateway's policy, by who holds the session. */
  #dialers(spec: DeploySpec, policy: EgressPolicy): EgressDialers {
    const { ability, callers } = this.#options;
    const gateway = this.#gateway;
    const who = "the server";
    return {
      client: async (target, signal) => {
        await requireRoute(policy, target, "client", who);
        const caller = callers.of(spec.name);
        if (!caller) {
          throw new SvcError("unavailable", `Cannot connect: ${spec.name} has no caller`);
        }
        const stream = await caller.open("egress", streamFields(target), { signal });
        return await dialledByCaller(stream, target, signal);
      },
      cluster: async (target, signal) => {
        const engine = await ability();
        const mayDial = (address: string) => isIP(address) === 4;
        const route = "cluster";
        const addresses = await addressesFor(target, { policy, route, who, mayDial, signal });
        const dialOut = engine?.dialOut;
        if (!dialOut) throw new SvcError("denied", "Cannot connect: the engine has no way out");
        return await firstOf(addresses, (address) => dialOut(address, target.port, signal));
      },
      ...(gateway && {
        gateway: async (target, signal) => {
          const mayDial = (address: string) => gateway.permits({ ...target, address });
          const route = "gateway";
          const addresses = await addressesFor(target, { policy, route, who, mayDial, signal });
          return await firstOf(addresses, (address) => dialDirect(address, target.port, signal));
        },
      }),
    };
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.#attending[Symbol.asyncDispose]();
  }
}

/** On the loopback of the workload's namespace. */
async function listenBeside(
  place: { path: string; instance: string; port: number },
  mode: EgressMode | undefined,
): Promise<EgressListener> {
  const { path, instance, port } = place;
  try {
    if (mode === "transparent") return await transparentListener(place);
    return proxyListener(withinNetns(path, () => Deno.listen({ hostname: "127.0.0.1", port })));
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    const taken = systemCode(cause) === "EADDRINUSE";
    throw new SvcError(
      "deploy_failed",
      `Cannot listen beside ${instance} on 127.0.0.1:${port}: ${
        taken ? "the workload uses that port" : (cause as Error).message
      }`,
      { cause, help: "set egress.listenPort to a port that the workload does not use" },
    );
  }
}
