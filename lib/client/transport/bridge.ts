/**
 * A private local socket in front of a dialer, for APIs that can only connect to sockets (fetch, WebSocket).
 * Each connection to the socket becomes one connection of the dialer.
 */
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { asSvcError, type SvcError } from "../../base/errors.ts";
import type { Dialer } from "./dialer.ts";

export interface Bridge extends AsyncDisposable {
  /** A client whose requests all go through the dialer, whatever host the URL has. */
  readonly http: Deno.HttpClient;
  /** Why the last connection could not be made or broke. Each reason is returned once. */
  explain(): SvcError | undefined;
  /** True once the dialer has made a connection. */
  reached(): boolean;
}

function listen(server: Server, path: string | undefined): Promise<Deno.Proxy> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    if (path !== undefined) {
      return server.listen(path, () => resolve({ transport: "unix", path }));
    }
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      resolve({ transport: "tcp", hostname: "127.0.0.1", port });
    });
  });
}

export async function openBridge(dialer: Dialer): Promise<Bridge> {
  let failure: SvcError | undefined;
  let reached = false;
  const open = new Set<Socket>();
  const serve = async (local: Socket) => {
    open.add(local);
    local.once("close", () => open.delete(local));
    local.on("error", () => {/* its closing says it */});
    try {
      const remote = await dialer.dial();
      reached = true;
      if (local.destroyed) return void remote.destroy();
      remote.on("error", (error) => {
        failure ??= asSvcError(error);
        local.destroy();
      });
      remote.once("close", () => local.destroySoon());
      local.once("close", () => remote.destroy());
      local.pipe(remote);
      remote.pipe(local);
    } catch (error) {
      failure = asSvcError(error);
      local.destroy();
    }
  };
  const server = createServer({ allowHalfOpen: true }, (local) => void serve(local));
  // Only this user can enter the folder: the socket carries the user's credentials.
  const folder = Deno.build.os === "windows"
    ? undefined
    : await Deno.makeTempDir({ prefix: "svc-" });
  const proxy = await listen(server, folder && join(folder, "s"));
  const http = Deno.createHttpClient({ proxy, http2: false });
  return {
    http,
    reached: () => reached,
    explain() {
      const last = failure;
      failure = undefined;
      return last;
    },
    async [Symbol.asyncDispose]() {
      http.close();
      for (const local of open) local.destroy();
      server.close();
      await dialer[Symbol.asyncDispose]();
      if (folder) await Deno.remove(folder, { recursive: true }).catch(() => {/* gone already */});
    },
  };
}
