/** SVC_INGRESS_LISTEN: ingress over plain HTTP at an address of this machine. */
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/sleep.ts";
import { formatAddress, type ListenAddress } from "../../config/address.ts";
import type { IngressProxy } from "../../ingress/proxy.ts";
import { connDuplex } from "../../wire/duplex.ts";
import { connectionLimit } from "../http/connection_limit.ts";

export interface FrontDoorOptions {
  address: ListenAddress;
  proxy: IngressProxy;
  log: Logger;
  /** Connections open at once. Default: half of the other listener's, because each needs two. */
  maxConnections?: number;
}

export interface FrontDoor extends Disposable {
  /** The address that the listener is bound to. */
  readonly address: ListenAddress;
}

/** Milliseconds until a listener that failed to accept tries again. */
const PAUSE_MS = 100;
/** Failures are logged no more often than this. */
const TELL_MS = 60_000;

/** No host name: `::`, which takes IPv4 too; where the kernel has no IPv6, `0.0.0.0`. */
function bind({ hostname, port }: ListenAddress): Deno.TcpListener {
  if (hostname !== undefined) return Deno.listen({ hostname, port });
  try {
    return Deno.listen({ hostname: "::", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return Deno.listen({ hostname: "0.0.0.0", port });
  }
}

const isLoopback = (address: string) => /^(::ffff:)?127\.|^::1$/.test(address);

/** The IPv4 address of a client of an IPv6 socket. */
const plain = (address: string) => address.replace(/^::ffff:(?=\d+\.)/, "");

/** Undefined where the address cannot be bound. This is logged, and the server goes on without the front door. */
export async function openFrontDoor(options: FrontDoorOptions): Promise<FrontDoor | undefined> {
  const { address, proxy, log } = options;
  const most = options.maxConnections ?? Math.ceil(await connectionLimit() / 2);
  let listener: Deno.TcpListener;
  try {
    listener = bind(address);
  } catch (error) {
    log.error(`Cannot open the ingress front door at ${formatAddress(address)}`, {
      error,
      help: "set SVC_INGRESS_LISTEN to an address of this machine whose port is free",
    });
    return undefined;
  }
  const { port } = listener.addr;
  void accept(listener, { proxy, log, most });
  const bound = { ...address, port };
  log.info(`ingress is served on ${formatAddress(bound)}`);
  return {
    address: bound,
    [Symbol.dispose]() {
      try {
        listener.close();
      } catch {
        // closed already
      }
    },
  };
}

async function accept(
  listener: Deno.TcpListener,
  { proxy, log, most }: { proxy: IngressProxy; log: Logger; most: number },
): Promise<void> {
  let told = -Infinity;
  const warn = (message: string, fields: Record<string, unknown>) => {
    if (performance.now() - told < TELL_MS) return;
    told = performance.now();
    log.warn(message, fields);
  };
  for (;;) {
    let conn: Deno.TcpConn;
    try {
      conn = await listener.accept();
    } catch (error) {
      if (error instanceof Deno.errors.BadResource) return;
      warn("ingress cannot accept connections; svc tries again", { error });
      await sleep(PAUSE_MS);
      continue;
    }
    const stream = connDuplex(conn);
    if (proxy.open >= most) {
      warn("new ingress connections are closed: too many are open", { open: proxy.open });
      stream.reset();
      continue;
    }
    try {
      conn.setNoDelay(true);
      conn.setKeepAlive(true);
    } catch {
      // gone already: reading it says so
    }
    const { hostname } = conn.remoteAddr;
    // A client on this machine is a proxy that ends TLS: its forwarding headers are trusted.
    void proxy.accept(stream, {
      scheme: "http",
      remote: plain(hostname),
      trusted: isLoopback(hostname),
    });
  }
}
