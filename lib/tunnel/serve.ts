/** Connects a tunnel's visitors to the workload. */
import type { TunnelProtocol } from "../api/tunnel.ts";
import type { Visit } from "./tunnels.ts";
import type { Duplex } from "../wire/duplex.ts";
import { relay } from "../wire/relay.ts";

const TEXT = "Bad gateway: the workload behind this tunnel does not answer.\n";

const BAD_GATEWAY = new TextEncoder().encode(
  "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\n" +
    `Content-Length: ${TEXT.length}\r\nConnection: close\r\n\r\n${TEXT}`,
);

/**
 * Serves each visitor through a connection that `dial` makes. Where `dial` fails, a visitor who speaks HTTP
 * gets an answer that does not describe the server's inside, and the error is thrown for the log.
 */
export function serveBy(
  dial: (signal: AbortSignal) => Promise<Duplex>,
  protocol: TunnelProtocol,
): (stream: Duplex, visit: Pick<Visit, "signal">) => Promise<void> {
  return async (stream, { signal }) => {
    let target: Duplex;
    try {
      target = await dial(signal);
    } catch (error) {
      if (protocol === "http" && !signal.aborted) {
        await stream.write(BAD_GATEWAY);
        await stream.closeWrite();
      }
      throw error;
    }
    await relay(stream, target);
  };
}
