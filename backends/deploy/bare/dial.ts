/** Connections into an instance's network. */
import { createSocket } from "node:dgram";
import { SvcError } from "../../../lib/base/errors.ts";
import type { Duplex } from "../../../lib/deploy/backend.ts";

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
    return {
      readable: conn.readable,
      writable: conn.writable,
      close: () => {
        try {
          conn.close();
        } catch {
          // closed by its streams
        }
      },
    };
  } catch (error) {
    signal?.throwIfAborted();
    throw refusal(address, port, error);
  }
}

/** Each chunk is one datagram, both ways. */
export function dialUdp(address: string, port: number): Promise<Duplex> {
  const socket = createSocket("udp4");
  return new Promise((resolve, reject) => {
    socket.once("error", (error) => reject(refusal(address, port, error)));
    socket.connect(port, address, () => {
      const readable = new ReadableStream<Uint8Array>({
        start(controller) {
          socket.on("message", (message) => controller.enqueue(new Uint8Array(message)));
          socket.on("close", () => controller.close());
          socket.on("error", (error) => controller.error(error));
        },
        cancel: () => close(),
      });
      const writable = new WritableStream<Uint8Array>({
        write: (chunk) =>
          new Promise<void>((sent, failed) =>
            socket.send(chunk, (error) => error ? failed(error) : sent())
          ),
        close: () => close(),
      });
      let open = true;
      const close = () => {
        if (open) socket.close();
        open = false;
      };
      resolve({ readable, writable, close });
    });
  });
}
