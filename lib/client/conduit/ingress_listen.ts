/** Listeners of emulated ingress: on this machine alone, at the usual ports where those are to be had. */
import { createServer, type Server, type Socket } from "node:net";
import { asSvcError, type SvcError, systemCode } from "../../base/errors.ts";

export const LOOPBACK = "127.0.0.1";

/** Connections at once of one listener; more are hung up on. */
const MAX_CONNECTIONS = 1024;

export interface LocalListenerOptions {
  /** Taken where it is free and permitted, else any free one; 0: any free one. */
  preferred: number;
  /** Serves a connection to its end. Never throws. */
  serve: (socket: Socket) => Promise<void>;
  /** Told why connections are not taken. */
  onError: (error: SvcError) => void;
  limit?: number;
}

/** Ends with its connections. */
export interface LocalListener extends AsyncDisposable {
  readonly port: number;
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: LOOPBACK, port }, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
}

const TAKEN = ["EADDRINUSE", "EACCES", "EPERM"];

/** `make` gives a server that does not listen yet. */
async function listening(make: () => Server, preferred: number): Promise<Server> {
  const server = make();
  try {
    await listen(server, preferred);
    return server;
  } catch (error) {
    const elsewhere = preferred !== 0 && TAKEN.includes(systemCode(error) ?? "");
    if (!elsewhere) throw asSvcError(error, `Cannot listen on ${LOOPBACK}`);
    return await listening(make, 0);
  }
}

export async function listenLocally(options: LocalListenerOptions): Promise<LocalListener> {
  const { preferred, serve, onError, limit = MAX_CONNECTIONS } = options;
  const open = new Map<Socket, Promise<void>>();
  const take = (socket: Socket) => {
    socket.on("error", () => {/* whoever reads or writes is told */});
    if (open.size >= limit) return void socket.destroy();
    const served = serve(socket).finally(() => {
      socket.destroy();
      open.delete(socket);
    });
    open.set(socket, served);
  };
  const server = await listening(
    () => createServer({ allowHalfOpen: true, noDelay: true }, take),
    preferred,
  );
  // No descriptor is left for one connection: the next may find one.
  server.on("error", (error) => onError(asSvcError(error, "Cannot take a connection")));
  return {
    port: (server.address() as { port: number }).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of open.keys()) socket.destroy();
      await Promise.all([closed, ...open.values()]);
    },
  };
}
