/** Connections into an instance's network. */
import { createSocket } from "node:dgram";
import { SvcError } from "../../../lib/base/errors.ts";
import { connDuplex, type Duplex } from "../../../lib/wire/duplex.ts";

const CONNECT_MS = 10_000;

/** Datagrams that wait for a reader at most, and their bytes: further ones are dropped, as UDP does. */
const MAX_WAITING = 256;
const MAX_WAITING_BYTES = 1 << 20;

function refusal(address: string, port: number, cause: unknown): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot connect to port ${port} of the instance at ${address}: ${(cause as Error).message}`,
    { cause, help: "check that the workload listens on that port, on every address" },
  );
}

export async function dialTcp(
  address: string,
  port: number,
  signal?: AbortSignal,
): Promise<Duplex> {
  const limit = AbortSignal.timeout(CONNECT_MS);
  const signals = signal ? AbortSignal.any([signal, limit]) : limit;
  try {
    const conn = await Deno.connect({ hostname: address, port, signal: signals });
    conn.setNoDelay(true);
    return connDuplex(conn);
  } catch (error) {
    signal?.throwIfAborted();
    throw refusal(address, port, error);
  }
}

/** Nobody learns from UDP whether anything listens: a datagram that is refused is one that is lost. */
export function dialUdp(address: string, port: number): Promise<Duplex> {
  const socket = createSocket("udp4");
  const waiting: Uint8Array[] = [];
  let bytes = 0;
  let open = true;
  let arrival = Promise.withResolvers<void>();
  const reset = () => {
    if (open) socket.close();
    open = false;
    arrival.resolve();
  };
  socket.on("message", (message) => {
    if (waiting.length >= MAX_WAITING || bytes + message.length > MAX_WAITING_BYTES) return;
    waiting.push(message);
    bytes += message.length;
    arrival.resolve();
  });
  const stream: Duplex = {
    async read() {
      while (open) {
        const datagram = waiting.shift();
        if (datagram) {
          bytes -= datagram.length;
          return datagram;
        }
        arrival = Promise.withResolvers();
        await arrival.promise;
      }
      return undefined;
    },
    write: (datagram) =>
      new Promise<void>((resolve) => {
        if (!open) return resolve();
        socket.send(datagram, () => resolve());
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
