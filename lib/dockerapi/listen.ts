/** The Unix socket on which the Docker API is served. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import type { Buffer } from "node:buffer";
import { dirname } from "../base/path.ts";
import { asSvcError, SvcError, systemCode } from "../base/errors.ts";
import { uidOfPeer } from "../sys/peer_uid.ts";
import type { DockerApi } from "./api.ts";
import { messageOf, NodeCall, type Outlet, targetOf } from "./call.ts";
import type { Router } from "./router.ts";
import { serverHeaders } from "./server_headers.ts";

export interface ListenOptions {
  /** Absolute path of the socket. */
  path: string;
  api: DockerApi;
  router: Router;
  /** Ends all calls. */
  signal: AbortSignal;
  /** The user at the other end of a socket; undefined: the system does not tell. */
  uidOf?: (socket: Socket) => number | undefined;
}

/** True where somebody answers on the socket. */
function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** Takes away the socket of a process that has ended. Throws `address_in_use` where there is something else. */
async function clear(path: string): Promise<void> {
  let info: Deno.FileInfo;
  try {
    info = await Deno.lstat(path);
  } catch {
    return;
  }
  const inUse = (why: string) =>
    new SvcError("address_in_use", `Cannot listen on ${path}: ${why}`, {
      help: "choose another path with SVC_DOCKER_SOCK",
    });
  if (!info.isSocket) throw inUse("there is a file that is no socket");
  if (await isAnswered(path)) throw inUse("another process listens there");
  await Deno.remove(path);
}

async function serve(message: IncomingMessage, outlet: Outlet, options: ListenOptions) {
  const { router, api, signal } = options;
  let call: NodeCall | undefined;
  const none = { route: undefined!, version: "", path: "", params: {} };
  try {
    const found = router.find(message.method ?? "GET", targetOf(message)[0]);
    call = new NodeCall(message, outlet, found, signal);
    const answer = await found.route.handler(call, api);
    if (!call.isTaken) await call.answer(answer ?? { status: 204 });
  } catch (error) {
    const { status } = messageOf(error);
    // What svc does not do (501) is the client's affair, and so is a connection that it closed.
    const own = status >= 500 && status !== 501;
    if (own && !call?.signal.aborted && systemCode(error) !== "EPIPE") {
      api.warn(`${message.method} ${message.url}: ${asSvcError(error).message}`);
    }
    await (call ?? new NodeCall(message, outlet, none, signal)).fail(error).catch(() => {});
  }
}

/** This user, and root, who could be this user. */
const maySpeak = (uid: number | undefined) => uid === undefined || uid === 0 || uid === Deno.uid();

/** A server of the API that listens nowhere yet; its open connections are in `sockets`. */
function apiServer(options: ListenOptions, sockets: Set<Socket>): Server {
  const { uidOf = uidOfPeer } = options;
  const server = createServer({ keepAlive: false });
  // Streams of logs and events are silent for as long as nothing happens.
  server.timeout = server.requestTimeout = server.keepAliveTimeout = 0;
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    // A connection that breaks is told by the reads and writes that it broke.
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    try {
      if (!maySpeak(uidOf(socket))) socket.destroy();
    } catch {
      // Whose it is cannot be told: nobody is let in unseen.
      socket.destroy();
    }
  });
  server.on("request", (message, response) => {
    void serve(message, { response, socket: message.socket as Socket }, options);
  });
  server.on("checkContinue", (message, response) => {
    response.writeContinue();
    void serve(message, { response, socket: message.socket as Socket }, options);
  });
  server.on("upgrade", (message: IncomingMessage, socket: Socket, head: Buffer) => {
    void serve(message, { socket, head }, options);
  });
  server.on("clientError", (_error, socket) => {
    const lines = Object.entries(serverHeaders()).map((pair) => `${pair.join(": ")}\r\n`).join("");
    socket.end(
      `HTTP/1.1 400 Bad Request\r\n${lines}connection: close\r\ncontent-length: 0\r\n\r\n`,
    );
  });
  return server;
}

/** Opens the server's socket, which is this user's alone from the start. */
async function openSocket(server: Server, path: string): Promise<void> {
  // Nobody else can connect between the listen and the chmod: the mask makes the socket 0600.
  const mask = Deno.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error) =>
        reject(
          new SvcError(
            systemCode(error) === "EADDRINUSE" ? "address_in_use" : "argument_invalid",
            `Cannot listen on ${path}: ${error.message}`,
            { cause: error, help: "choose another path with SVC_DOCKER_SOCK" },
          ),
        ));
      server.listen(path, resolve);
    });
  } finally {
    Deno.umask(mask);
  }
  await Deno.chmod(path, 0o600);
}

/** Listens, for this user alone (0600). Disposing ends all connections. */
export async function listen(options: ListenOptions): Promise<AsyncDisposable> {
  const { path } = options;
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await clear(path);
  const sockets = new Set<Socket>();
  const server = apiServer(options, sockets);
  await openSocket(server, path);
  return {
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
      await Deno.remove(path).catch(() => {/* it is gone with the listener */});
    },
  };
}
