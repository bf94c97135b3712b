/** UDP flows of a socket that listens: every peer has a stream of datagrams of its own. */
import type { Socket } from "node:dgram";
import { DatagramQueue } from "./datagram_queue.ts";
import type { Duplex } from "./duplex.ts";
import { Idle } from "./idle.ts";

/** Milliseconds without a datagram after which a flow ends. */
const IDLE_MS = 120_000;
/** Flows at once; a further one ends the flow that was idle longest. */
const MAX_FLOWS = 512;

interface Flow {
  received: DatagramQueue;
  idle: Idle;
}

/**
 * Calls `serve` with the stream of each new peer; the flow is over when that resolves, and `serve` calls `onBytes`
 * when a datagram passes. Resetting the stream ends it, and so do `idleMs` milliseconds without a datagram.
 */
export function udpFlows(
  socket: Socket,
  serve: (peer: Duplex, onBytes: () => void) => Promise<void>,
  idleMs = IDLE_MS,
): void {
  /** By the peer's address, the one idle longest first. */
  const flows = new Map<string, Flow>();
  const open = (key: string, address: string, port: number): Flow => {
    const received = new DatagramQueue();
    const idle = new Idle(idleMs, () => received.close());
    const flow = { received, idle };
    const peer: Duplex = {
      read: () => received.take(),
      write: (datagram) =>
        new Promise((resolve) => socket.send(datagram, port, address, () => resolve())),
      closeWrite: () => Promise.resolve(),
      reset: () => received.close(),
      closed: received.closed,
    };
    void serve(peer, () => idle.touch()).finally(() => {
      idle[Symbol.dispose]();
      if (flows.get(key) === flow) flows.delete(key);
    });
    return flow;
  };
  socket.on("message", (datagram, { address, port }) => {
    const key = `${address} ${port}`;
    const flow = flows.get(key) ?? open(key, address, port);
    flows.delete(key);
    flows.set(key, flow);
    flow.received.push(datagram);
    if (flows.size <= MAX_FLOWS) return;
    const [oldest, { received }] = flows.entries().next().value!;
    flows.delete(oldest);
    received.close();
  });
}
