/** One connection to the SSH server, which listens for us and passes on the visitors' connections. */
import { connect, type Socket } from "node:net";
import { SvcError } from "../../../lib/base/errors.ts";
import { joinHostPort } from "../../../lib/base/host_port.ts";
import { UrlFinder } from "../../../lib/tunnel/url.ts";
import type { Duplex } from "../../../lib/wire/duplex.ts";
import { hostKeyAlgorithms } from "../../../lib/wire/ssh/algorithms.ts";
import type { ParsedKey } from "../../../lib/wire/ssh/private_key.ts";
import { ChannelStream } from "./channel.ts";
import { HostKey } from "./host_key.ts";
import { type AuthMethod, type Client, newClient, takeByPort } from "./ssh2.ts";
import { shown, type SshTarget } from "./target.ts";

/** Milliseconds until the server has to listen and, where that is expected, has printed the URL. */
const OPEN_MS = 60_000;
/** Milliseconds between keepalives; a dead connection is noticed after three. */
const KEEPALIVE_MS = 15_000;
/** Visitors at a time; further ones are refused. */
const MAX_VISITORS = 512;

export interface ForwardOptions {
  target: SshTarget;
  /** Requested instead of the target's port. */
  port?: number;
  /** Absent: tries whether the server accepts everybody. */
  key?: ParsedKey;
  onVisitor: (stream: Duplex, from: string | undefined) => void;
  signal: AbortSignal;
}

export interface Forward {
  /** Where the server listens. */
  port: number;
  /** The URL that the server printed, where that is expected. */
  url?: string;
  /** Resolves with the reason when the connection has ended. */
  closed: Promise<SvcError>;
  /** Ends the connection and those of all visitors. */
  close(): void;
}

export async function openForward(options: ForwardOptions): Promise<Forward> {
  const timeout = AbortSignal.timeout(OPEN_MS);
  const signal = AbortSignal.any([options.signal, timeout]);
  const session = new Session(options.target);
  try {
    return await session.open(options, signal);
  } catch (error) {
    session.close();
    options.signal.throwIfAborted();
    if (timeout.aborted && !(error instanceof SvcError)) {
      const message = `Cannot open a tunnel over ${shown(options.target)}: it took too long`;
      throw new SvcError("timeout", message, { cause: error });
    }
    throw error;
  }
}

class Session {
  readonly #target: SshTarget;
  readonly #visitors = new Set<ChannelStream>();
  readonly #closed = Promise.withResolvers<SvcError>();
  #socket?: Socket;
  #client?: Client;
  #refusal?: () => SvcError | undefined;
  /** True once the server listens: a later failure ends a working tunnel. */
  #held = false;

  constructor(target: SshTarget) {
    this.#target = target;
  }

  async open(options: ForwardOptions, signal: AbortSignal): Promise<Forward> {
    const { bind, urlFromSession } = this.#target;
    const within = <T>(work: Promise<T>): Promise<T> =>
      untilAborted(work, this.#closed.promise, signal);
    const client = await within(this.#connect(options.key, signal));
    client.on("tcp connection", ({ srcIP }, accept, reject) => {
      if (this.#visitors.size >= MAX_VISITORS) return reject();
      const stream = new ChannelStream(accept());
      this.#visitors.add(stream);
      void stream.closed.then(() => this.#visitors.delete(stream));
      options.onVisitor(stream, srcIP || undefined);
    });
    const asked = options.port ?? bind.port;
    const port = await within(this.#ask(() => this.#listen(client, bind.host, asked)));
    const url = urlFromSession ? await within(this.#ask(() => this.#printed(client))) : undefined;
    this.#held = true;
    return {
      port,
      ...(url !== undefined && { url }),
      closed: this.#closed.promise,
      close: () => this.close(),
    };
  }

  async #connect(key: ParsedKey | undefined, signal: AbortSignal): Promise<Client> {
    const { host, port, user: username } = this.#target;
    const hostKey = await HostKey.of(this.#target);
    const client = await newClient();
    signal.throwIfAborted();
    this.#client = client;
    this.#refusal = () => hostKey.refusal;
    const sock = this.#socket = connect({ host, port, noDelay: true });
    const ready = Promise.withResolvers<void>();
    client.on("ready", ready.resolve);
    client.on("error", (error) => this.#end(this.#failure(error, key !== undefined)));
    client.on(
      "close",
      () => this.#end(this.#failure(new Error("the connection was closed"), true)),
    );
    const methods: AuthMethod[] = [
      { type: "none", username },
      ...(key ? [{ type: "publickey" as const, username, key }] : []),
    ];
    client.connect({
      sock,
      username,
      readyTimeout: OPEN_MS,
      keepaliveInterval: KEEPALIVE_MS,
      keepaliveCountMax: 3,
      algorithms: { serverHostKey: hostKeyAlgorithms(hostKey.types()) },
      hostVerifier: (offered) => hostKey.verify(offered),
      authHandler: (_left, _partial, next) => next(methods.shift() ?? false),
    });
    await Promise.race([ready.promise, this.#closed.promise]);
    return client;
  }

  /** ssh2 throws synchronously where its connection has just broken. */
  async #ask<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      throw error instanceof SvcError ? error : this.#failure(error as Error, true);
    }
  }

  #listen(client: Client, host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      client.forwardIn(host, port, (error, given) => {
        if (!error) {
          takeByPort(client, given);
          return resolve(given);
        }
        reject(
          new SvcError(
            "port_in_use",
            `Cannot open a tunnel over ${shown(this.#target)}: it refuses to listen on ${
              joinHostPort(host || "*", port)
            }`,
            {
              cause: error,
              help: "something else may listen there, or the SSH server does not permit it " +
                "(AllowTcpForwarding, PermitListen); change SVC_TUNNEL_SSH_BIND, port 0 lets it choose",
            },
          ),
        );
      });
    });
  }

  /** The first URL in a session's output. The session stays open: the tunnel may end with it. */
  #printed(client: Client): Promise<string> {
    const none = (why: string, cause?: unknown) =>
      new SvcError(
        "upstream_failed",
        `Cannot tell the tunnel's URL: ${shown(this.#target)} ${why}`,
        {
          cause,
          help: "set SVC_TUNNEL_SSH_URL_TEMPLATE instead of SVC_TUNNEL_SSH_URL_FROM_SESSION",
        },
      );
    return new Promise((resolve, reject) => {
      client.shell(false, (error, channel) => {
        if (error) return reject(none("gives no session", error));
        const finders = [channel, channel.stderr].map((stream) => {
          const finder = new UrlFinder();
          const decoder = new TextDecoder();
          let done = false;
          stream.on("data", (bytes: Uint8Array) => {
            if (done) return;
            const url = finder.add(decoder.decode(bytes, { stream: true }));
            done = url !== undefined || finder.full;
            if (url !== undefined) resolve(url);
          });
          return finder;
        });
        channel.on("close", () => {
          const last = finders.map((finder) => finder.end()).find((url) => url !== undefined);
          if (last !== undefined) resolve(last);
          else reject(none("ended its session without a URL"));
        });
      });
    });
  }

  #failure(error: Error & { level?: string }, withKey: boolean): SvcError {
    const refusal = this.#refusal?.();
    if (refusal) return refusal;
    const where = shown(this.#target);
    if (error.level === "client-authentication") {
      // Not 401: the refused credential is not the caller's.
      return new SvcError(
        "upstream_failed",
        withKey
          ? `Cannot open a tunnel over ${where}: it does not accept the key`
          : `Cannot open a tunnel over ${where}: it asks for a key, and none was given`,
        {
          help:
            "give the private key of a user that it knows: --authtoken-file, or SVC_TUNNEL_AUTHTOKEN " +
            "of the server",
          detail: { refused: "login" },
        },
      );
    }
    const why = error.message.replace(/^\(SSH\) /, "").replace(/ \(os error \d+\)$/, "");
    const attempt = this.#held ? "hold" : "open";
    return new SvcError("upstream_failed", `Cannot ${attempt} a tunnel over ${where}: ${why}`, {
      cause: error,
      help: "check SVC_TUNNEL_SSH_ADDR, and that the SSH server is up",
    });
  }

  #end(why: SvcError): void {
    this.#closed.resolve(why);
    for (const visitor of this.#visitors) visitor.lost();
    this.#client?.destroy();
    this.#socket?.destroy();
  }

  close(): void {
    this.#end(new SvcError("cancelled", "Cannot use the tunnel: it was closed"));
  }
}

/** The work's result. Throws the reason where its connection ends or its time is over. */
async function untilAborted<T>(
  work: Promise<T>,
  ended: Promise<SvcError>,
  signal: AbortSignal,
): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  aborted.promise.catch(() => {/* told by the race */});
  work.catch(() => {/* told by the race, or too late */});
  try {
    return await Promise.race([
      aborted.promise,
      ended.then((why) => {
        throw why;
      }),
      work,
    ]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
