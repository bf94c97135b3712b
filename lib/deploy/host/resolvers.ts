/**
 * SPEC SVC_BARE_DNS: a resolver on the gateway of each network. It answers for deployments on the networks of
 * the asking container, and forwards other queries to the host's resolvers.
 */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { Logger } from "../../base/log.ts";
import { Mutex } from "../../base/mutex.ts";
import type { BridgeNetwork } from "../../runtime/bridge_network.ts";
import type { Forwarder } from "../../runtime/dns/forward.ts";
import {
  type Question,
  Rcode,
  RecordType,
  type Reply,
  reverseAddress,
} from "../../runtime/dns/message.ts";
import type { DnsServer } from "../../runtime/dns/server.ts";
import { gatewayOf } from "../../runtime/bridge_rules.ts";
import { parseAddress6 } from "../../base/address6.ts";
import { inSubnet6, parseSubnet6 } from "../../runtime/subnets6.ts";
import { resolvConf } from "./host_files.ts";
import { type NamedInstance, namesOn } from "./names.ts";
import type { NetworkChoice } from "./record.ts";

const PORT = 53;
const LOOPBACK = "127.0.0.1";

export interface ResolversOptions {
  /** SVC_BARE_DNS. */
  enabled: boolean;
  log: Logger;
  instances: () => readonly NamedInstance[];
}

/** The resolv.conf of one container. `hostConf` is the host's. */
export function resolvText(
  resolvers: Pick<Resolvers, "address">,
  spec: DeploySpec,
  choice: NetworkChoice,
  hostConf: string,
): string {
  const networks = choice.kind === "bridges" ? choice.networks.map(({ network }) => network) : [];
  // Nothing behind a wall reaches a resolver: a query is refused at once, in place of waiting for an answer.
  const walled = networks.some(({ walled }) => walled);
  return resolvConf(hostConf, {
    servers: walled ? [LOOPBACK] : spec.dnsServers,
    search: spec.dnsSearch,
    options: spec.dnsOptions,
    hostNetwork: choice.kind === "host",
    gateway: networks[0] && resolvers.address(networks[0]),
    internal: networks.every(({ internal }) => internal),
  });
}

/** The answer to a container at the address `from`, or to an unknown one on `network`. */
export function answerFor(
  question: Question,
  from: string,
  network: BridgeNetwork,
  all: readonly NamedInstance[],
): Reply | "forward" {
  if (!question.internet) return "forward";
  const asking = all.find(({ networks }) => networks.some(({ ip }) => ip === from));
  const seen = asking?.networks.map((attachment) => attachment.network) ?? [network];
  const known = seen.flatMap(({ name }) => namesOn(name, all));
  if (question.type === RecordType.PTR) {
    const address = reverseAddress(question.name);
    const names = known.filter(({ ip, ip6 }) => address && [ip, ip6].includes(address)).map((
      { instance },
    ) => instance.id);
    if (names.length > 0) return { authoritative: true, names };
    const ours = address !== undefined && seen.some((one) => isOn(one, address));
    if (ours) return { authoritative: true, rcode: Rcode.nameError };
  }
  const asked = (names: string[]) => names.some((name) => name.toLowerCase() === question.name);
  const found = known.filter(({ names }) => asked(names));
  if (found.length > 0) {
    const addresses = found.flatMap(({ ip, ip6 }) =>
      question.type === RecordType.A ? ip : question.type === RecordType.AAAA ? ip6 ?? [] : []
    );
    return { authoritative: true, addresses: [...new Set(addresses)] };
  }
  // The name belongs to a deployment that has no instance there now: no other resolver is asked.
  if (known.some(({ away }) => asked(away))) {
    return { authoritative: true, rcode: Rcode.nameError };
  }
  // A query must not leave an internal network either.
  return seen.every(({ internal }) => internal) ? { rcode: Rcode.nameError } : "forward";
}

function isOn({ subnet, subnet6 = "" }: BridgeNetwork, address: string): boolean {
  if (!address.includes(":")) return address.startsWith(subnet.replace(/0\/24$/, ""));
  const [within, number] = [parseSubnet6(subnet6), parseAddress6(address)];
  return within !== undefined && number !== undefined && inSubnet6(within, number);
}

export class Resolvers {
  #options: ResolversOptions;
  #servers = new Map<string, DnsServer>();
  #forwarder: Forwarder | undefined;
  #lock = new Mutex();
  /** Why a gateway has no resolver: logged once each. */
  #told = new Map<string, string>();
  #turn = 0;
  #stopped = false;

  constructor(options: ResolversOptions) {
    this.#options = options;
  }

  /** The resolver's address for containers of the network; undefined: it has none. */
  address(network: BridgeNetwork): string | undefined {
    return this.#servers.has(network.bridge) ? gatewayOf(network) : undefined;
  }

  /**
   * Starts resolvers for the networks, whose bridges exist. One that cannot start is logged: hosts files work
   * without it.
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
        import("../../runtime/dns/server.ts"),
        import("../../runtime/dns/forward.ts"),
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
      log.debug("the resolver of a network listens", { network: network.name, address: hostname });
    } catch (error) {
      // The bridge has no address yet, as after a reboot, until an instance starts on it.
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

  /** Rotates the answer, so that replicas take turns at being the first. */
  #turned(question: Question, from: string, network: BridgeNetwork): Reply | "forward" {
    const reply = answerFor(question, from, network, this.#options.instances());
    if (reply === "forward" || !reply.addresses?.length) return reply;
    const first = this.#turn++ % reply.addresses.length;
    const { addresses } = reply;
    return { ...reply, addresses: [...addresses.slice(first), ...addresses.slice(0, first)] };
  }

  /** Closes the network's resolver. Call it before the bridge is removed. */
  release({ bridge }: BridgeNetwork): Promise<void> {
    return this.#lock.run(async () => {
      const server = this.#servers.get(bridge);
      this.#servers.delete(bridge);
      await server?.[Symbol.asyncDispose]();
    });
  }

  /** Closes all resolvers. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#lock.run(async () => {
      const servers = [...this.#servers.values()];
      this.#servers.clear();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    });
  }
}
