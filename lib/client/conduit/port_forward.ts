/** Local ports that forward to a deployment's ports: each local connection has its own to the deployment. */
import { createSocket } from "node:dgram";
import { createServer, type Server, type Socket } from "node:net";
import { asSvcError, SvcError, systemCode } from "../../base/errors.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { relay } from "../../wire/relay.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";
import { udpFlows } from "../../wire/udp_flows.ts";
import type { Services } from "./services.ts";

export interface PortForwardOptions {
  services: Services;
  /** The deployment. */
  name: string;
  /** Port inside its instance. */
  port: number;
  protocol: "tcp" | "udp";
  /** Local address to listen on. */
  address: string;
  /** Local port; 0: a free one. */
  local: number;
  /** Called with the reason when a connection cannot be made or breaks; other connections continue. */
  onError: (error: SvcError) => void;
  /** Milliseconds after which an idle UDP flow ends; default: as on the server. */
  idleMs?: number;
}

export interface PortForward extends AsyncDisposable {
  /** The local port that is listened on. */
  readonly local: number;
}

const LISTEN_REASONS: Record<string, string> = {
  EADDRINUSE: "the port is taken",
  EACCES: "this user may not listen there",
  EADDRNOTAVAIL: "this machine does not have the address",
  EINVAL: "this machine does not have the address",
  ENOTFOUND: "there is no such address",
};

export const shownAddress = (address: string, port: number) =>
  `${address.includes(":") ? `[${address}]` : address}:${port}`;

function cannotListen({ address, local, port }: PortForwardOptions, cause: unknown): SvcError {
  const why = LISTEN_REASONS[systemCode(cause) ?? ""] ?? asSvcError(cause).message;
  return new SvcError(
    systemCode(cause) === "EADDRINUSE" ? "port_in_use" : "argument_invalid",
    `Cannot listen on ${shownAddress(address, local)}: ${why}`,
    {
      cause,
      help: `choose another local port, such as ${
        local + 10000
      }:${port}, or any free one: :${port}`,
    },
  );
}

/** The local side broke: its client knows already, so nothing is reported. */
class Gone extends Error {}

const gone = (cause: unknown): never => {
  throw new Gone("the local side went away", { cause });
};

/** The connections of one local port, and what ends all of them. */
class Connections {
  readonly #options: PortForwardOptions;
  readonly #ending = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(options: PortForwardOptions) {
    this.#options = options;
  }

  /** Connects `local` to the deployment's port, until both have ended. */
  add(local: Duplex, onBytes?: () => void): Promise<void> {
    const running = this.#join(local, onBytes).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }

  async #join(local: Duplex, onBytes?: () => void): Promise<void> {
    const { services, name, port, protocol, onError } = this.#options;
    const left = new AbortController();
    void local.closed?.then(() => left.abort());
    const signal = AbortSignal.any([this.#ending.signal, left.signal]);
    const end = () => local.reset();
    let dialled = false;
    this.#ending.signal.addEventListener("abort", end, { once: true });
    try {
      const remote = await services.dial(name, port, protocol, signal);
      dialled = true;
      const mine: Duplex = {
        read: () => local.read().catch(gone),
        write: (bytes) => local.write(bytes).catch(gone),
        closeWrite: () => local.closeWrite(),
        reset: () => local.reset(),
        closed: local.closed?.then(() => new Gone()),
      };
      await relay(mine, remote, onBytes);
    } catch (error) {
      const nobody = dialled ? error instanceof Gone : signal.aborted;
      if (!nobody && !this.#ending.signal.aborted) onError(asSvcError(error));
    } finally {
      this.#ending.signal.removeEventListener("abort", end);
      local.reset();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#running);
  }
}

function listenTcp(options: PortForwardOptions, onSocket: (socket: Socket) => void) {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, onSocket);
  return new Promise<Server>((resolve, reject) => {
    server.once("error", (error) => reject(cannotListen(options, error)));
    server.listen({ host: options.address, port: options.local }, () => {
      server.removeAllListeners("error");
      // Too few descriptors for one connection; the next one may succeed.
      server.on("error", (error) => options.onError(asSvcError(error, "Cannot take a connection")));
      resolve(server);
    });
  });
}

async function forwardTcp(options: PortForwardOptions): Promise<PortForward> {
  const connections = new Connections(options);
  const server = await listenTcp(options, (socket) => void connections.add(socketDuplex(socket)));
  return {
    local: (server.address() as { port: number }).port,
    async [Symbol.asyncDispose]() {
      server.close();
      await connections[Symbol.asyncDispose]();
    },
  };
}

function bindUdp(options: PortForwardOptions) {
  const socket = createSocket(options.address.includes(":") ? "udp6" : "udp4");
  return new Promise<typeof socket>((resolve, reject) => {
    socket.once("error", (error) => {
      socket.close();
      reject(cannotListen(options, error));
    });
    socket.bind({ address: options.address, port: options.local }, () => {
      socket.removeAllListeners("error");
      socket.on("error", () => {/* a datagram was lost */});
      resolve(socket);
    });
  });
}

async function forwardUdp(options: PortForwardOptions): Promise<PortForward> {
  const connections = new Connections(options);
  const socket = await bindUdp(options);
  udpFlows(socket, (peer, onBytes) => connections.add(peer, onBytes), options.idleMs);
  return {
    local: socket.address().port,
    async [Symbol.asyncDispose]() {
      await connections[Symbol.asyncDispose]();
      await new Promise<void>((closed) => socket.close(() => closed()));
    },
  };
}

/**
 * Listens until it is disposed of, which ends its connections too. Throws `port_in_use` or `argument_invalid`
 * where it cannot listen. When the deployment is replaced, the next connection reaches the new instance.
 */
export function forwardPort(options: PortForwardOptions): Promise<PortForward> {
  return options.protocol === "udp" ? forwardUdp(options) : forwardTcp(options);
}
