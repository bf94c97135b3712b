/** Connections into an instance's network. */
import { createSocket } from "node:dgram";
import { SvcError } from "../../../lib/base/errors.ts";
import { DatagramQueue } from "../../../lib/wire/datagram_queue.ts";
import { connDuplex, type Duplex } from "../../../lib/wire/duplex.ts";

const CONNECT_MS = 10_000;

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
