/** Workloads reached through the server (lib/api/forward.ts). */
import { encodeForwardQuery, forwardPath, type ForwardProtocol } from "../api/forward.ts";
import { SvcError } from "../base/errors.ts";
import { datagrams } from "../wire/datagrams.ts";
import type { Duplex } from "../wire/duplex.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import { attach } from "./attached/attach.ts";
import type { Client } from "./client.ts";
import type { Services } from "./conduit/services.ts";

async function open(
  client: Client,
  name: string,
  port: number,
  protocol: ForwardProtocol,
  signal?: AbortSignal,
): Promise<Duplex> {
  const opened = Promise.withResolvers<YamuxStream>();
  const attempt = `go on with port ${port} of ${name}`;
  const session = await attach(client, forwardPath(name), {
    ...{ attempt, signal, begun: opened.promise },
    query: encodeForwardQuery({ port, protocol }),
    takes: { port: opened.resolve },
    lost: (why = "the connection was lost") =>
      new SvcError("upstream_failed", `Cannot ${attempt}: ${why}`, {
        help: "look at `svc status` and the server's log",
      }),
  });
  const stream = await opened.promise;
  const connection: Duplex = {
    read: () => stream.read(),
    write: (bytes) => stream.write(bytes),
    closeWrite: () => stream.closeWrite(),
    reset: () => stream.isOver ? void session.close() : session[Symbol.dispose](),
    closed: session.closed,
  };
  return protocol === "udp" ? datagrams(connection) : connection;
}

export function servicesOf(client: Client): Services {
  return {
    async dial(name, port, protocol, signal) {
      signal?.throwIfAborted();
      return await open(client, name, port, protocol, signal);
    },
    list: () => client.json("GET /deployments"),
  };
}
