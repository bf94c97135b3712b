/**
 * Published TCP and UDP ports at [::1]. The kernel leads nothing from there to a bridge, as it does from 127.0.0.1:
 * so the server listens itself and passes the bytes on, as long as it runs.
 */
import { createSocket, type Socket } from "node:dgram";
import { createServer, type Server } from "node:net";
import type { PublishedPort } from "../../api/deployment.ts";
import type { Logger } from "../../base/log.ts";
import type { PortTargets } from "../../runtime/port_rules.ts";
import { dialTcp, dialUdp } from "../../wire/dial.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { relay } from "../../wire/relay.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";
import { udpFlows } from "../../wire/udp_flows.ts";

const ADDRESS = "::1";

type Target = PortTargets["targets"][number];

const isHere = ({ hostIP, protocol }: Pick<PublishedPort, "hostIP" | "protocol">) =>
  protocol !== "sctp" && (hostIP === ADDRESS || hostIP === "::");

const keyOf = ({ host, protocol }: Pick<PublishedPort, "host" | "protocol">) =>
  `${host}/${protocol}`;

const sameTarget = (a: Target, b: Target) => a.ip === b.ip && a.port === b.port;

interface Port {
  published: PortTargets;
  listening: Server | Socket;
}

interface Open {
  port: Port;
  target: Target;
}

type Serve = (peer: Duplex, onBytes?: () => void) => Promise<void>;

function listenTcp(port: number, serve: Serve): Server {
  const server = createServer(
    { allowHalfOpen: true },
    (socket) => void serve(socketDuplex(socket)),
  );
  return server.listen({ host: ADDRESS, port, ipv6Only: true });
}

function listenUdp(port: number, serve: Serve): Socket {
  const socket = createSocket("udp6");
  udpFlows(socket, serve);
  return socket.bind({ address: ADDRESS, port, exclusive: true });
}

export class LoopbackPorts {
  #log: Logger;
  #ports = new Map<string, Port>();
  #open = new Map<Duplex, Open>();
  #end = new AbortController();
  #turn = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  holds(port: PublishedPort): boolean {
    return isHere(port) && this.#ports.has(keyOf(port));
  }

  /**
   * Listens at exactly these of the ports that are at [::1]. TCP connections that are open go on; UDP flows to who is
   * no longer a target end, so that the next datagram goes to one that is.
   */
  set(ports: readonly PortTargets[]): void {
    const wanted = new Map(
      ports.filter(isHere).map((one) => [keyOf({ ...one, host: one.hostPort }), one]),
    );
    for (const [key, port] of this.#ports) {
      if (wanted.has(key)) continue;
      this.#ports.delete(key);
      port.listening.close();
      port.published = { ...port.published, targets: [] };
    }
    for (const [key, published] of wanted) {
      const known = this.#ports.get(key);
      if (known) known.published = published;
      else this.#listen(key, published);
    }
    for (const [peer, { port: { published: { protocol, targets } }, target }] of this.#open) {
      if (protocol === "udp" && !targets.some((one) => sameTarget(one, target))) peer.reset();
    }
  }

  #listen(key: string, published: PortTargets): void {
    const serve = (peer: Duplex, onBytes?: () => void) => this.#serve(peer, port, onBytes);
    const listening = published.protocol === "udp"
      ? listenUdp(published.hostPort, serve)
      : listenTcp(published.hostPort, serve);
    const port: Port = { published, listening };
    this.#ports.set(key, port);
    // Without IPv6 there is nothing to listen at.
    listening.once("error", (error: Error) => {
      if (this.#ports.get(key) !== port) return;
      this.#ports.delete(key);
      listening.close();
      this.#log.warn(`a published port is not reached at [${ADDRESS}]:${key}`, { error });
    });
  }

  async #serve(peer: Duplex, port: Port, onBytes?: () => void): Promise<void> {
    const { targets, protocol } = port.published;
    const target = targets[this.#turn++ % targets.length];
    if (!target) return peer.reset();
    this.#open.set(peer, { port, target });
    try {
      const there = protocol === "udp"
        ? await dialUdp(target.ip, target.port)
        : await dialTcp(target.ip, target.port, this.#end.signal);
      await relay(peer, there, onBytes);
    } catch {
      // Refused, or broken by either side: the other one is told.
      peer.reset();
    } finally {
      this.#open.delete(peer);
    }
  }

  /** Ends the connections too. */
  stop(): void {
    this.set([]);
    this.#end.abort();
    for (const peer of this.#open.keys()) peer.reset();
  }
}
