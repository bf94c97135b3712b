/** Workloads reached through the server (lib/api/forward.ts). */
import type { DeploymentStatus } from "../api/deployment.ts";
import { encodeForwardQuery, forwardPath, type ForwardProtocol } from "../api/forward.ts";
import { SvcError } from "../base/errors.ts";
import { datagrams } from "../wire/datagrams.ts";
import type { Duplex } from "../wire/duplex.ts";
import { SocketStream } from "../wire/socket_stream.ts";
import type { Client } from "./client.ts";
import type { Services } from "./conduit/services.ts";

async function open(
  client: Client,
  name: string,
  port: number,
  protocol: ForwardProtocol,
  signal?: AbortSignal,
): Promise<Duplex> {
  const stream = new SocketStream({
    lost: (why) =>
      new SvcError("upstream_failed", `Cannot go on with port ${port} of ${name}: ${why}`, {
        help: "look at `svc status` and the server's log",
      }),
  });
  const opening = client.socket(forwardPath(name), encodeForwardQuery({ port, protocol }), {
    onMessage: (data) => stream.receive(data),
    onText: (text) => stream.receive(text),
    onClose: (event) => stream.lost(event),
  }).then((socket) => stream.attach(socket));
  const gaveUp = Promise.withResolvers<never>();
  const abort = () => {
    // Of a socket that is not open yet, this closes it as soon as it is.
    stream.reset();
    gaveUp.reject(signal!.reason);
  };
  signal?.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race([opening, gaveUp.promise]);
    return protocol === "udp" ? datagrams(stream) : stream;
  } finally {
    opening.catch(() => {/* told, or nobody waits for it */});
    signal?.removeEventListener("abort", abort);
  }
}

export function servicesOf(client: Client): Services {
  return {
    async dial(name, port, protocol, signal) {
      signal?.throwIfAborted();
      try {
        return await open(client, name, port, protocol, signal);
      } catch (error) {
        // Why an upgrade was refused is asked for once more, without one. That this is what it says means
        // that the port answers by now.
        const now = error instanceof SvcError && error.code === "argument_invalid";
        if (!now) throw error;
        return await open(client, name, port, protocol, signal);
      }
    },
    list: () => client.json<DeploymentStatus[]>("GET", "/deployments"),
  };
}
