/**
 * SPEC SVC_BARE_DNS: a resolver on the gateway of each network. It knows the deployments of the networks
 * that the asking container is on, and has the rest answered by the host's resolvers.
 */
import type { Logger } from "../../../lib/base/log.ts";
import { Mutex } from "../../../lib/base/mutex.ts";
import type { Forwarder } from "../../../lib/runtime/dns/forward.ts";
import {
  type Question,
  Rcode,
  RecordType,
  type Reply,
  reverseAddress,
} from "../../../lib/runtime/dns/message.ts";
import type { DnsServer } from "../../../lib/runtime/dns/server.ts";
import { gatewayOf } from "../../../lib/runtime/bridge_rules.ts";
import type { BridgeNetwork } from "../../../lib/runtime/network.ts";
import type { Instance } from "./instance.ts";
import { namesOn } from "./names.ts";

const PORT = 53;

export interface ResolversOptions {
  /** SVC_BARE_DNS. */
  enabled: boolean;
  log: Logger;
  instances: () => Instance[];
}

/** What a container at `from`, or one of `network` that nobody knows, is to be told. */
export function answerFor(
  question: Question,
  from: string,
  network: BridgeNetwork,
  all: readonly Instance[],
): Reply | "forward" {
  if (!question.internet) return "forward";
  const asking = all.find(({ record }) => record.networks.some(({ ip }) => ip === from));
  const seen = asking?.record.networks.map((attachment) => attachment.network) ?? [network];
  const known = seen.flatMap(({ name }) => namesOn(name, all));
  if (question.type === RecordType.PTR) {
    const address = reverseAddress(question.name);
    const names = known.filter(({ ip }) => ip === address).map(({ instance }) => instance.id);
    if (names.length > 0) return { authoritative: true, names };
    const ours = address !== undefined && seen.some((one) => isOn(one, address));
    if (ours) return { authoritative: true, rcode: Rcode.nameError };
  }
  const asked = (names: string[]) => names.some((name) => name.toLowerCase() === question.name);
  const found = known.filter(({ names }) => asked(names));
  if (found.length > 0) {
    const addresses = [...new Set(found.map(({ ip }) => ip))];
    return { authoritative: true, addresses: question.type === RecordType.A ? addresses : [] };
  }
  // Ours, and nobody is there: it is nobody else's either.
  if (known.some(({ away }) => asked(away))) {
    return { authoritative: true, rcode: Rcode.nameError };
  }
  // From an internal network nothing gets out, by way of names neither.
  return seen.every(({ internal }) => internal) ? { rcode: Rcode.nameError } : "forward";
}

const isOn = ({ subnet }: BridgeNetwork, address: string) =>
  address.startsWith(subnet.replace(/0\/24$/, ""));

export class Resolvers {
  #options: ResolversOptions;
  #servers = new Map<string, DnsServer>();
  #forwarder: Forwarder | undefined;
  #lock = new Mutex();
  /** Why there is none on a gateway: said once. */
  #told = new Map<string, string>();
  #turn = 0;
  #stopped = false;

  constructor(options: ResolversOptions) {
    this.#options = options;
  }

  /** Where containers of the network find their resolver; undefined where it has none. */
  address(network: BridgeNetwork): string | undefined {
    return this.#servers.has(network.bridge) ? gatewayOf(network) : undefined;
  }

  /**
   * Sees to it that the networks, whose bridges are there, have resolvers. One that cannot be is logged:
   * hosts files go on without it.
   */
  async serve(networks: readonly BridgeNetwork[]): Promise<void> {
    if (!this.#options.enabled) return;
    if (networks.every(({ bridge }) => this.#servers.has(bridge))) return;
    await this.#lock.run(async () => {
      for (const network of networks) {
        if (!this.#servers.has(network.bridge) && !this.#stopped) await this.#listen(network);
      }
    });
  }

  async #listen(network: BridgeNetwork): Promise<void> {
    const { log } = this.#options;
    const hostname = gatewayOf(network);
    try {
      const [{ DnsServer }, { Forwarder, hostUpstreams }] = await Promise.all([
        import("../../../lib/runtime/dns/server.ts"),
        import("../../../lib/runtime/dns/forward.ts"),
      ]);
      this.#forwarder ??= new Forwarder(() =>
        hostUpstreams(new Set([...this.#servers.values()].map(({ hostname }) => hostname)))
      );
      const zone = {
        serves: (from: string) => isOn(network, from),
        resolve: (question: Question, from: string) => this.#turned(question, from, network),
      };
      const server = await DnsServer.listen({
        hostname,
        port: PORT,
        zone,
        forwarder: this.#forwarder,
      });
      this.#servers.set(network.bridge, server);
      this.#told.delete(network.bridge);
      log.debug("containers' names are answered", { network: network.name, address: hostname });
    } catch (error) {
      // Nobody is up there: after a reboot, until one of them is started.
      if (error instanceof Deno.errors.AddrNotAvailable) return;
      const reason = (error as Error).message;
      if (this.#told.get(network.bridge) === reason) return;
      this.#told.set(network.bridge, reason);
      log.warn(`no resolver on ${hostname}:${PORT}: names come from hosts files only`, {
        network: network.name,
        reason,
        help: "have the host's own resolver listen on its own addresses, or set SVC_BARE_DNS=false",
      });
    }
  }

  /** Replicas take turns at being the first. */
  #turned(question: Question, from: string, network: BridgeNetwork): Reply | "forward" {
    const reply = answerFor(question, from, network, this.#options.instances());
    if (reply === "forward" || !reply.addresses?.length) return reply;
    const first = this.#turn++ % reply.addresses.length;
    const { addresses } = reply;
    return { ...reply, addresses: [...addresses.slice(first), ...addresses.slice(0, first)] };
  }

  /** Before the bridge goes. */
  release({ bridge }: BridgeNetwork): Promise<void> {
    return this.#lock.run(async () => {
      const server = this.#servers.get(bridge);
      this.#servers.delete(bridge);
      await server?.[Symbol.asyncDispose]();
    });
  }

  /** Nothing is answered any more. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#lock.run(async () => {
      const servers = [...this.#servers.values()];
      this.#servers.clear();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    });
  }
}
