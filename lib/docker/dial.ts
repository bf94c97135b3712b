/** Connections to the daemon's endpoint: a unix socket, TCP, TLS, or a forward that ssh holds. */
import { connect, isIP, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { SvcError } from "../base/errors.ts";
import { pauseBelow } from "../base/node_hooks.ts";
import { sshFailure, SshForward } from "../wire/ssh/forward.ts";
import { isDistrust, TLS_EXPIRED, TLS_NOT_YET } from "./tls_words.ts";
import type { DockerEndpoint, TlsFiles } from "./endpoint.ts";

export interface DockerDialer extends AsyncDisposable {
  /** A new connection, with half-open ends. Rejects with the system's error or an `SvcError`. */
  dial(signal: AbortSignal): Promise<Socket>;
}

/** `product`: the daemon's name in errors, "the Docker daemon". */
export function dockerDialer(endpoint: DockerEndpoint, product: string): DockerDialer {
  const none = () => Promise.resolve();
  if (endpoint.kind === "ssh") {
    const { user, host, port, address, socket } = endpoint;
    const destination = user === undefined ? host : `${user}@${host}`;
    const forward = new SshForward({
      // Nobody answers questions of the server's ssh.
      args: () => [
        ...["-o", "BatchMode=yes", "-o", "ConnectTimeout=30"],
        ...(port === undefined ? [] : ["-p", String(port)]),
        destination,
      ],
      remote: socket,
      failure: (words) =>
        sshFailure(destination, words, {
          code: "unavailable",
          what: `Cannot reach ${product} at ${address}`,
        }),
    });
    return {
      dial: () => forward.dial(),
      [Symbol.asyncDispose]: () => forward[Symbol.asyncDispose](),
    };
  }
  if (endpoint.kind === "unix") {
    const { path } = endpoint;
    return {
      dial: (signal) => opened(connect({ path, allowHalfOpen: true }), "connect", signal),
      [Symbol.asyncDispose]: none,
    };
  }
  const { host, port, tls } = endpoint;
  const plain = async (signal: AbortSignal) => {
    const socket = await opened(connect({ host, port, allowHalfOpen: true }), "connect", signal);
    // A remote daemon that went away with its machine is noticed.
    socket.setKeepAlive(true, 15_000);
    return socket.setNoDelay(true);
  };
  return {
    dial: async (signal) => {
      if (!tls) return await plain(signal);
      try {
        return await secured(() => plain(signal), host, tls, signal);
      } catch (cause) {
        if (!isDistrust(cause)) throw cause;
        const dates = await datesOf(() => plain(signal), host, signal);
        const now = Date.now();
        if (dates && dates.to < now) throw new Error(TLS_EXPIRED, { cause });
        if (dates && dates.from > now) throw new Error(TLS_NOT_YET, { cause });
        throw cause;
      }
    },
    [Symbol.asyncDispose]: none,
  };
}

function opened<T extends Socket>(
  socket: T,
  event: "connect" | "secureConnect",
  signal: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      signal.removeEventListener("abort", abort);
      socket.off("error", fail).off("close", close);
      act();
    };
    const fail = (error: Error) =>
      settle(() => {
        socket.destroy();
        reject(error);
      });
    const close = () => fail(new Error("the connection was closed"));
    const abort = () => {
      socket.on("error", () => {/* the signal's reason is told */});
      fail(signal.reason);
    };
    socket.once(event, () => settle(() => resolve(socket)));
    socket.on("error", fail).on("close", close);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}

/** Read for each connection: certificates are renewed while the server runs. */
async function readPem({ ca, cert, key }: TlsFiles) {
  const read = (path: string) =>
    Deno.readTextFile(path).catch((cause) => {
      throw new SvcError(
        "config_invalid",
        `Cannot read ${path}, a file of DOCKER_CERT_PATH: ${
          cause instanceof Error ? cause.message : cause
        }`,
        { cause, help: "put ca.pem, cert.pem and key.pem there" },
      );
    });
  const [caPem, certPem, keyPem] = await Promise.all([ca, cert, key].map(read));
  return { ca: caPem, cert: certPem, key: keyPem };
}

/** TLS over a connection that `dial` makes once all is read: one that nobody listens to ends the process by a reset. */
async function secured(
  dial: () => Promise<Socket>,
  host: string,
  files: TlsFiles,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const { connect: connectTls } = await import("node:tls");
  const pem = await readPem(files);
  const socket = await dial();
  const secure = connectTls({
    socket,
    host,
    ...serverName(host),
    ...pem,
    rejectUnauthorized: true,
  });
  pauseBelow(secure);
  socket.on("error", (error) => secure.destroy(error));
  // A daemon refuses a client's certificate after the handshake, maybe before the exchange listens.
  secure.on("error", (error) => secure.destroy(error));
  return await opened(secure, "secureConnect", signal);
}

const serverName = (host: string) => isIP(host) === 0 ? { servername: host } : {};

/**
 * The times of the certificate that is presented there, in milliseconds since 1970; undefined where none comes. The
 * handshake's own error only says that it is not to be trusted. Nothing is sent.
 */
async function datesOf(
  dial: () => Promise<Socket>,
  host: string,
  signal: AbortSignal,
): Promise<{ from: number; to: number } | undefined> {
  const { connect: connectTls } = await import("node:tls");
  let socket: Socket | undefined;
  try {
    socket = await dial();
    const secure = connectTls({ socket, host, ...serverName(host), rejectUnauthorized: false });
    for (const one of [socket, secure]) one.on("error", () => {/* as below */});
    await opened(secure, "secureConnect", signal);
    const { valid_from, valid_to } = secure.getPeerCertificate();
    return { from: Date.parse(valid_from), to: Date.parse(valid_to) };
  } catch {
    return undefined; // what was told first is told
  } finally {
    socket?.destroy();
  }
}
