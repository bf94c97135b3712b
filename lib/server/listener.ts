/**
 * The listener: handlers are fetch-style and do not know what serves them. It is node's HTTP server, which
 * moves large bodies both ways at the speed of the disk, with a reader of simple requests in front
 * (http/head.ts). `Deno.serve` takes fewer steps for small answers. But a chunked upload that arrives faster
 * than it is stored costs it seconds of processor time per megabyte.
 */
import { createServer, type Server } from "node:http";
import { createServer as createSecureServer, type Server as SecureServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { type ErrorCode, SvcError, systemCode } from "../base/errors.ts";
import { passOn, pauseBelow } from "../base/node_hooks.ts";
import { ClientCertificates } from "./http/client_certificates.ts";
import { serveConnection } from "./http/connection.ts";
import { connectionLimit, limitConnections } from "./http/connection_limit.ts";
import type { Handler } from "./http/exchange.ts";
import { type NodeOptions, serveMessage, serveUpgrade } from "./http/node.ts";
import { LIMITS, type Limits, Peers } from "./http/peer.ts";
import { secureOptions, type TlsMaterial, trackHandshakes } from "./http/tls.ts";

export interface ListenOptions {
  /** Absent: every interface, IPv4 and IPv6. */
  hostname?: string;
  /** 0: any free one. */
  port: number;
  /** Absent: plain HTTP. */
  tls?: TlsMaterial;
  /** The address as errors show it: ":5000". */
  label?: string;
  /** Limits for slow clients; the defaults are in http/peer.ts. */
  limits?: Partial<Limits>;
  /** Connections open at once. Default: as many as the process's descriptors are enough for. */
  maxConnections?: number;
  /** Called, no more than once a minute, when connections are closed because too many are open. */
  onRefused?: (open: number) => void;
}

export type { Handler } from "./http/exchange.ts";

export interface Listener {
  readonly address: { hostname: string; port: number };
  /** Stops accepting; resolves when the requests in flight have ended. */
  shutdown(): Promise<void>;
  /** Ends at once and cuts off requests in flight. May be called after `shutdown`, and again. */
  close(): Promise<void>;
  /**
   * Later handshakes use this material. Open connections stay; their client certificates have to verify with
   * it. Only where `tls` was given.
   */
  setTls?(material: TlsMaterial): void;
}

const BIND_ERRORS: Record<string, [ErrorCode, string, string?]> = {
  EADDRINUSE: ["address_in_use", "address in use"],
  EACCES: [
    "config_invalid",
    "permission denied",
    "choose a port above 1023 with SVC_ADDR, or run as root",
  ],
  EADDRNOTAVAIL: [
    "config_invalid",
    "no such address on this machine",
    "set SVC_ADDR to an address of this machine",
  ],
};

function bindError(error: unknown, label: string): Error {
  const known = BIND_ERRORS[systemCode(error) ?? ""];
  if (!known) {
    return new SvcError("config_invalid", `Cannot bind ${label}: ${(error as Error).message}`, {
      cause: error,
      help: "set SVC_ADDR to [host]:port",
    });
  }
  const [code, what, help] = known;
  return new SvcError(code, `Cannot bind ${label}: ${what}`, { cause: error, help });
}

/** Node would answer a request without a host itself, and then still serve the requests behind it. */
const OURS_TO_REFUSE = { requireHostHeader: false };

/** How long a client may take to read the refusal of a malformed request. */
const REFUSED_MS = 1000;

/** Serves the requests of a server that does not listen yet. */
function serveOn(http: Server | SecureServer, serving: NodeOptions): void {
  // Peers enforces the time limits of all connections; node's own limits would cut long uploads.
  http.requestTimeout = 0;
  http.headersTimeout = 0;
  http.keepAliveTimeout = 0;
  http.timeout = 0;
  http.on("request", (message, response) => void serveMessage(message, response, serving));
  http.on(
    "checkContinue",
    (message, response) =>
      void serveMessage(message, response, { ...serving, awaitsContinue: true }),
  );
  http.on("upgrade", (message, _socket, head) => void serveUpgrade(message, head, serving));
  http.on("clientError", (error, socket) => refuse(error, socket as Socket));
  // Node's own listener is called only for connections that ours hands over.
  const secure = serving.scheme === "https";
  const event = secure ? "secureConnection" : "connection";
  const [serveAsNode] = http.listeners(event);
  http.removeAllListeners(event);
  http.on(event, (socket: Socket) => {
    socket.setNoDelay(true);
    if (secure) pauseBelow(socket as TLSSocket);
    serveConnection(socket, {
      ...serving,
      handOver(head) {
        serveAsNode.call(http, socket);
        passOn(socket, head);
      },
    });
  });
}

/**
 * Binds and serves. Throws `address_in_use` or `config_invalid` before anything is accepted. A rejected
 * handler is answered with a bare 500: handlers turn their errors into responses themselves.
 */
export async function listen(options: ListenOptions, handler: Handler): Promise<Listener> {
  const label = options.label ?? `${options.hostname ?? ""}:${options.port}`;
  const { clientCa } = options.tls ?? {};
  const certificates = clientCa === undefined ? undefined : new ClientCertificates(clientCa);
  const peers = new Peers({ ...LIMITS, ...options.limits }, certificates);
  const scheme = options.tls ? "https" : "http";
  const serving = { handler, peers, scheme } as const;
  const secure = options.tls &&
    createSecureServer({ ...secureOptions(options.tls), ...OURS_TO_REFUSE });
  const http = secure ?? createServer(OURS_TO_REFUSE);
  const endHandshakes = secure ? trackHandshakes(secure) : () => {};
  serveOn(http, serving);
  const most = options.maxConnections ?? await connectionLimit();
  limitConnections(http, { most, onRefused: options.onRefused });
  let address: { address: string; port: number };
  try {
    address = await bind(http, options);
  } catch (error) {
    peers.destroy();
    throw bindError(error, label);
  }
  const closed = new Promise<void>((resolve) => http.once("close", () => resolve()));
  return {
    address: { hostname: address.address, port: address.port },
    setTls: secure && ((material) => {
      secure.setSecureContext(secureOptions(material));
      if (material.clientCa !== undefined) certificates?.replace(material.clientCa);
    }),
    async shutdown() {
      http.close();
      endHandshakes();
      await peers.drain();
      await closed;
    },
    async close() {
      http.close();
      endHandshakes();
      peers.destroy();
      await closed;
    },
  };
}

/** Answers a request that node's parser cannot read, as far as the connection still allows. */
function refuse(error: Error, socket: Socket): void {
  const { code } = error as { code?: string };
  if (!socket.writable || code === "ECONNRESET") return void socket.destroy();
  const status = code === "HPE_HEADER_OVERFLOW"
    ? "431 Request Header Fields Too Large"
    : "400 Bad Request";
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
  const timer = setTimeout(() => socket.destroy(), REFUSED_MS);
  socket.once("close", () => clearTimeout(timer));
}

function listenOn(server: Server, host: string, port: number) {
  return new Promise<{ address: string; port: number }>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, () => {
      server.removeListener("error", reject);
      resolve(server.address() as AddressInfo);
    });
  });
}

/** No host name: `::`, which takes IPv4 too; where the kernel has no IPv6, `0.0.0.0`. */
async function bind(server: Server, { hostname, port }: ListenOptions) {
  if (hostname !== undefined) return await listenOn(server, hostname, port);
  try {
    return await listenOn(server, "::", port);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EADDRINUSE" || code === "EACCES") throw error;
    return await listenOn(server, "0.0.0.0", port);
  }
}
