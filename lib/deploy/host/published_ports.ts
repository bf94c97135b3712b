/** Published ports lead to the instances of the best standing, as instances come, fall ill, end and are replaced. */
import type { PublishedPort } from "../../api/deployment.ts";
import type { Logger } from "../../base/log.ts";
import { SharedRuns } from "../../base/shared_runs.ts";
import { PortRules, type PortTargets } from "../../runtime/port_rules.ts";
import { forgetUdpFlows } from "../../sys/conntrack.ts";
import { LoopbackPorts } from "./loopback_ports.ts";
import type { InstanceRecord, NetworkAttachment } from "./record.ts";
import { best, type Standing } from "./standing.ts";

export interface PublishingInstance {
  made: Pick<InstanceRecord, "ports">;
  networks: readonly NetworkAttachment[];
  standing: Standing | undefined;
}

/** The targets of each port. A port without a target is left out: connections to it are refused. */
export function portTargets(all: readonly PublishingInstance[]): PortTargets[] {
  const leading = all.flatMap((instance) => {
    // Nothing is published on internal networks.
    const { ip, ip6 } = instance.networks.find(({ network }) => !network.internal) ?? {};
    if (!ip) return [];
    return instance.made.ports.map((port) => ({ port, ip, ip6, standing: instance.standing }));
  });
  const byPort = Map.groupBy(
    leading,
    ({ port: { hostIP, host, protocol } }) => `${hostIP} ${host} ${protocol}`,
  );
  return [...byPort.values()].flatMap((some) => {
    const [{ port: { hostIP, host: hostPort, protocol } }] = some;
    const targets = best(some).map(({ port: { container: port }, ip, ip6 }) => ({
      ip,
      ...(ip6 && { ip6 }),
      port,
    }));
    return targets.length > 0 ? [{ hostIP, hostPort, protocol, targets }] : [];
  });
}

/**
 * Sources of UDP answers that no rule covers any more: the host itself, for a port that is published now, and
 * addresses that are no longer targets.
 */
export function strayAnswers(
  before: readonly PortTargets[],
  after: readonly PortTargets[],
): { ip?: string; port: number }[] {
  const udp = (ports: readonly PortTargets[]) => ports.filter(({ protocol }) => protocol === "udp");
  const targets = (ports: readonly PortTargets[]) =>
    new Map(
      udp(ports).flatMap(({ targets }) => targets).flatMap(({ ip, ip6, port }) =>
        [ip, ip6].flatMap((one): [string, { ip: string; port: number }][] =>
          one ? [[`${one} ${port}`, { ip: one, port }]] : []
        )
      ),
    );
  const known = new Set(udp(before).map(({ hostPort }) => hostPort));
  const now = targets(after);
  return [
    ...udp(after).filter(({ hostPort }) => !known.has(hostPort))
      .map(({ hostPort: port }) => ({ port })),
    ...[...targets(before)].filter(([to]) => !now.has(to)).map(([, to]) => to),
  ];
}

export class PublishedPorts {
  #rules: PortRules;
  #loopback: LoopbackPorts;
  #instances: () => readonly PublishingInstance[];
  #log: Logger;
  #runs = new SharedRuns(() => this.#sync());
  #written: PortTargets[] = [];
  /** True where the written rules are known to be in place. */
  #sure = false;

  /** `chain`: a chain of the nat table that only this server uses. */
  constructor(chain: string, instances: () => readonly PublishingInstance[], log: Logger) {
    this.#rules = new PortRules(chain);
    this.#loopback = new LoopbackPorts(log);
    this.#instances = instances;
    this.#log = log;
  }

  /** Resolves when the ports lead to the targets of this call or of a later one. */
  sync(): Promise<void> {
    return this.#runs.run();
  }

  async #sync(): Promise<void> {
    const ports = portTargets(this.#instances());
    const before = this.#written;
    if (this.#sure && JSON.stringify(ports) === JSON.stringify(before)) return;
    this.#sure = false;
    await this.#rules.set(ports);
    this.#loopback.set(ports);
    this.#written = ports;
    this.#sure = true;
    this.#redirect(strayAnswers(before, ports));
  }

  /** True where the server listens at the port itself. */
  holds(port: PublishedPort): boolean {
    return this.#loopback.holds(port);
  }

  /** Ends what the server listens at; the rules stay. */
  stop(): void {
    this.#loopback.stop();
  }

  /** Forgets UDP flows that followed older rules, so that the new rules apply to them. */
  #redirect(stray: { ip?: string; port: number }[]): void {
    try {
      for (const answers of stray) forgetUdpFlows(answers);
    } catch (error) {
      this.#log.warn("UDP sent to a published port may still go to an earlier instance", { error });
    }
  }
}
