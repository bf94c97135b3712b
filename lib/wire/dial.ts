/** Connections to instances, by TCP and UDP. Unlike those of Deno they can be reset. */
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import { asSvcError, SvcError, systemCode } from "../base/errors.ts";
import { DatagramQueue } from "./datagram_queue.ts";
import type { Duplex } from "./duplex.ts";
import { socketDuplex } from "./socket_duplex.ts";

const CONNECT_MS = 10_000;

const REASONS: Record<string, string> = {
  ECONNREFUSED: "nothing listens there",
  EHOSTUNREACH: "the instance is not on its network",
};

function refusal(address: string, port: number, cause: unknown): SvcError {
  const why = REASONS[systemCode(cause) ?? ""] ?? asSvcError(cause).message;
  return new SvcError(
    "upstream_failed",
    `Cannot connect to port ${port} of the instance at ${address}: ${why}`,
    { cause, help: "check that the workload listens on that port, on every address" },
  );
}

/** Uses node's sockets: they can reset the connection when the client breaks, where Deno's only end it. */
export function dialTcp(address: string, port: number, signal?: AbortSignal): Promise<Duplex> {
  if (signal?.aborted) return Promise.reject(signal.reason);
  const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      settle();
      socket.destroy();
      reject(error);
    };
    const abort = () => fail(signal!.reason);
    const late = () => fail(refusal(address, port, new Error("it does not answer")));
    const broken = (error: Error) => fail(refusal(address, port, error));
    const timer = setTimeout(late, CONNECT_MS);
    const settle = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      socket.off("error", broken);
    };
    signal?.addEventListener("abort", abort, { once: true });
    socket.once("error", broken);
    socket.once("connect", () => {
      settle();
      resolve(socketDuplex(socket));
    });
  });
}

/** UDP does not tell whether anything listens: a refused datagram counts as lost. */
export function dialUdp(address: string, port: number): Promise<Duplex> {
  const socket = createSocket("udp4");
  const received = new DatagramQueue();
  let open = true;
  const reset = () => {
    if (open) socket.close();
    open = false;
    received.close();
  };
  socket.on("message", (datagram) => received.push(datagram));
  const stream: Duplex = {
    read: () => received.take(),
    write: (datagram) =>
      new Promise((resolve) => {
        if (open) socket.send(datagram, () => resolve());
        else resolve();
      }),
    closeWrite: () => Promise.resolve(),
    reset,
  };
  return new Promise((resolve, reject) => {
    socket.once("error", (error) => {
      reset();
      reject(refusal(address, port, error));
    });
    socket.connect(port, address, () => {
      socket.removeAllListeners("error");
      socket.on("error", () => {/* a datagram was lost */});
      resolve(stream);
    });
  });
}

/**
 * A connection to the instances in turn: `turn` counts the connections. An instance that has just ended may still be
 * among the addresses: over TCP the others are tried after it.
 */
export async function dialInTurn(
  addresses: readonly string[],
  turn: number,
  port: number,
  protocol: "tcp" | "udp",
  signal?: AbortSignal,
): Promise<Duplex> {
  const first = turn % addresses.length;
  if (protocol === "udp") return await dialUdp(addresses[first], port);
  const order = [...addresses.slice(first + 1), ...addresses.slice(0, first)];
  let connection = dialTcp(addresses[first], port, signal);
  for (const address of order) {
    connection = connection.catch((error) => {
      if (signal?.aborted) throw error;
      return dialTcp(address, port, signal);
    });
  }
  return await connection;
}
