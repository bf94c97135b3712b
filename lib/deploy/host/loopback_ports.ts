/**
 * Published TCP ports at [::1]. The kernel leads no connection from there to a bridge, as it does from 127.0.0.1: so
 * the server listens itself and passes the bytes on, as long as it runs.
 */
import { createServer, type Server, type Socket } from "node:net";
import type { Logger } from "../../base/log.ts";
import type { PortTargets } from "../../runtime/port_rules.ts";
import { dialTcp } from "../../wire/dial.ts";
import { relay } from "../../wire/relay.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";

const ADDRESS = "::1";

const isHere = ({ hostIP, protocol }: PortTargets) =>
  protocol === "tcp" && (hostIP === ADDRESS || hostIP === "::");

export class LoopbackPorts {
  #log: Logger;
  #servers = new Map<number, Server>();
  #targets = new Map<number, PortTargets["targets"]>();
  #open = new Set<Socket>();
  #end = new AbortController();
  #turn = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  holds(port: number): boolean {
    return this.#servers.has(port);
  }

  /** Listens at exactly these of the ports that are at [::1]; connections that are open go on. */
  set(ports: readonly PortTargets[]): void {
    this.#targets = new Map(
      ports.filter(isHere).map(({ hostPort, targets }) => [hostPort, targets]),
    );
    for (const [port, server] of this.#servers) {
      if (this.#targets.has(port)) continue;
      this.#servers.delete(port);
      server.close();
    }
    for (const port of this.#targets.keys()) if (!this.#servers.has(port)) this.#listen(port);
  }

  #listen(port: number): void {
    const server = createServer({ allowHalfOpen: true }, (socket) => this.#serve(socket, port));
    this.#servers.set(port, server);
    // Without IPv6 there is nothing to listen at.
    server.on("error", (error) => {
      if (this.#servers.get(port) === server) this.#servers.delete(port);
      this.#log.warn(`a published port is not reached at [${ADDRESS}]:${port}`, { error });
    });
    server.listen({ host: ADDRESS, port, ipv6Only: true });
  }

  async #serve(socket: Socket, port: number): Promise<void> {
    const stream = socketDuplex(socket);
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
    try {
      const targets = this.#targets.get(port) ?? [];
      const target = targets[this.#turn++ % targets.length];
      if (!target) return stream.reset();
      await relay(stream, await dialTcp(target.ip, target.port, this.#end.signal));
    } catch {
      // Refused, or broken by either side: the other one is told.
      stream.reset();
    }
  }

  /** Ends the connections too. */
  stop(): void {
    this.set([]);
    this.#end.abort();
    for (const socket of this.#open) socket.destroy();
  }
}
