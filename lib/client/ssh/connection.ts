/** An SSH connection by ssh2 that carries the streams; opened again after it broke. */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isAbort, SvcError } from "../../base/errors.ts";
import type { Prompt } from "../prompt.ts";
import type { SshTunnel } from "../profile/types.ts";
import type { Dialer } from "../transport/dialer.ts";
import { DEFAULT_REMOTE_ADDR } from "../resolve.ts";
import { type Environment, splitAddress, type SshHost } from "./config.ts";
import { hostKeyAlgorithms } from "../../wire/ssh/algorithms.ts";
import type { ParsedKey } from "../../wire/ssh/private_key.ts";
import { loadKey } from "./key.ts";
import { HostVerifier } from "./verify.ts";

const READY_MS = 30_000;
/** Milliseconds between keepalives; after three without an answer the connection is dead. */
const KEEPALIVE_MS = 10_000;

interface Ssh2Client {
  on(event: "ready" | "close", listener: () => void): Ssh2Client;
  on(event: "error", listener: (error: Error & { level?: string }) => void): Ssh2Client;
  connect(options: Record<string, unknown>): void;
  forwardOut(
    sourceIP: string,
    sourcePort: number,
    host: string,
    port: number,
    callback: (error: Error | undefined, stream: Duplex) => void,
  ): void;
  end(): void;
  destroy(): void;
}

type Method =
  | { type: "none"; username: string }
  | { type: "agent"; username: string; agent: string }
  | { type: "publickey"; username: string; key: ParsedKey };

export interface ConnectionOptions {
  settings: SshTunnel;
  host: SshHost;
  env: Environment;
  prompt: Prompt;
  signal: AbortSignal;
}

/** Connects before ssh2 is loaded: the server's side of the handshake takes about as long as loading. */
async function connect({ hostname, port }: SshHost): Promise<Socket> {
  const { connect } = await import("node:net");
  // A handshake is many small packets; with Nagle's algorithm each would wait 40 ms for an ACK.
  const sock = connect({ host: hostname, port, noDelay: true });
  sock.on("error", () => {/* ssh2 tells it, or `errored` where it came before ssh2 */});
  return sock;
}

export class SshConnection implements Dialer {
  readonly resumes = true;
  readonly #options: ConnectionOptions;
  #client?: Promise<Ssh2Client>;
  readonly #streams = new Set<Duplex>();
  /** Unlocked keys: nobody is asked twice for a passphrase. */
  readonly #keys = new Map<string, Promise<ParsedKey>>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  async dial(): Promise<Duplex> {
    const { settings } = this.#options;
    const { host, port = 5000 } = splitAddress(settings["remote-addr"] ?? DEFAULT_REMOTE_ADDR);
    const client = await this.#connected();
    return await new Promise((resolve, reject) => {
      client.forwardOut("127.0.0.1", 0, host, port, (error, stream) => {
        if (!error) {
          this.#streams.add(stream);
          stream.once("close", () => this.#streams.delete(stream));
          return resolve(stream);
        }
        reject(
          new SvcError(
            "server_unreachable",
            `Cannot reach ${host}:${port} through ${settings.addr}: ${lastWords(error)}`,
            { cause: error, help: "start `svc serve` there, or correct ssh-tunnel.remote-addr" },
          ),
        );
      });
    });
  }

  #connected(): Promise<Ssh2Client> {
    return this.#client ??= this.#open().catch((error) => {
      this.#client = undefined;
      throw error;
    });
  }

  async #open(): Promise<Ssh2Client> {
    const { settings, host, prompt } = this.#options;
    const sock = await connect(host);
    try {
      const verifier = await HostVerifier.create(settings, host, prompt);
      try {
        return await this.#attempt(verifier, sock);
      } catch (error) {
        // If the person accepts the new host's key, it is known now: one more attempt.
        if (!await verifier.learn()) throw error;
        return await this.#attempt(verifier, await connect(host));
      }
    } catch (error) {
      sock.destroy();
      throw error;
    }
  }

  async #attempt(verifier: HostVerifier, sock: Socket): Promise<Ssh2Client> {
    const { host, signal } = this.#options;
    const { default: ssh2 } = await import("ssh2");
    signal.throwIfAborted();
    if (sock.errored) throw this.#failure(sock.errored, []);
    const client: Ssh2Client = new ssh2.Client();
    const ready = Promise.withResolvers<void>();
    const refused: Error[] = [];
    client.on("ready", ready.resolve);
    client.on("error", (error) => {
      // A missing agent is not the failure yet: a key file may still work.
      if (error.level === "agent") return void refused.push(error);
      ready.reject(verifier.refusal ?? this.#failure(error, refused));
      this.#client = undefined;
    });
    client.on("close", () => {
      this.#client = undefined;
      // ssh2 leaves these streams waiting for data that cannot come any more.
      for (const stream of this.#streams) stream.destroy();
      ready.reject(
        verifier.refusal ?? this.#failure(new Error("the connection was closed"), refused),
      );
    });
    const methods = this.#methods(refused);
    client.connect({
      sock,
      username: host.user,
      readyTimeout: READY_MS,
      keepaliveInterval: KEEPALIVE_MS,
      keepaliveCountMax: 3,
      algorithms: { serverHostKey: hostKeyAlgorithms(verifier.types()) },
      // Answered at once: the handshake hangs if the answer comes after the host's next packet.
      hostVerifier: (key: Uint8Array) => verifier.verify(key),
      authHandler: (_left: unknown, _partial: unknown, next: (method: Method | false) => void) => {
        methods.next().then(({ done, value }) => next(done ? false : value), (error) => {
          refused.push(error);
          next(false);
        });
      },
    });
    const abort = () => client.destroy();
    signal.addEventListener("abort", abort, { once: true });
    try {
      await ready.promise;
    } catch (error) {
      client.destroy();
      throw signal.aborted ? signal.reason : error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
    return client;
  }

  /**
   * Authentication methods: the agent, then the key files. Missing files are skipped; a key that cannot be
   * unlocked is kept as a reason for the error.
   */
  async *#methods(refused: Error[]): AsyncGenerator<Method> {
    const { host, settings, prompt } = this.#options;
    const { user: username, agent } = host;
    yield { type: "none", username };
    if (agent) yield { type: "agent", username, agent };
    for (const path of host.identityFiles) {
      const named = settings["identity-file"] !== undefined;
      const there = await Deno.stat(path).then((info) => info.isFile, () => false);
      if (!there && !named) continue;
      let key = this.#keys.get(path);
      if (!key) this.#keys.set(path, key = loadKey(path, prompt));
      try {
        yield { type: "publickey", username, key: await key };
      } catch (error) {
        if (isAbort(error)) throw error;
        this.#keys.delete(path);
        refused.push(error as Error);
      }
    }
  }

  #failure(error: Error & { level?: string }, refused: readonly Error[]): SvcError {
    const { host, settings } = this.#options;
    const where = `${host.user}@${host.hostname}:${host.port}`;
    const known = refused.find((reason) => reason instanceof SvcError);
    if (error.level === "client-authentication") {
      return new SvcError(
        "unauthorized",
        `Cannot log in to ${where}: it accepts none of the keys${
          known ? `; ${known.message}` : ""
        }`,
        {
          cause: error,
          help: `try \`ssh ${settings.addr}\`; ssh-tunnel.identity-file names a key`,
        },
      );
    }
    return new SvcError("server_unreachable", `Cannot connect to ${where}: ${lastWords(error)}`, {
      cause: error,
      help: `try \`ssh ${settings.addr}\`; svc doctor looks at each step`,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    client?.destroy();
  }
}

const lastWords = (error: Error) =>
  error.message.replace(/^\(SSH\) /, "").replace(/ \(os error \d+\)$/, "");
