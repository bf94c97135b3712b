/** Listeners of emulated ingress: on loopback only, at the usual ports where those are available. */
import { createServer, type Server, type Socket } from "node:net";
import { asSvcError, type SvcError, systemCode } from "../../base/errors.ts";

export const LOOPBACK = "127.0.0.1";

/** Connections that one listener has at once; further ones are closed. */
const MAX_CONNECTIONS = 1024;

export interface LocalListenerOptions {
  /** Used where it is free and permitted, else any free port is; 0: any free port. */
  preferred: number;
  /** Serves a connection to its end. Never throws. */
  serve: (socket: Socket) => Promise<void>;
  /** Called with the reason when connections cannot be accepted. */
  onError: (error: SvcError) => void;
  limit?: number;
}

/** Disposing ends its connections too. */
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

/**
 * Listens on a server that `make` creates; a second server is made where the preferred port is not available.
 */
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
  // Too few descriptors for one connection; the next one may succeed.
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
