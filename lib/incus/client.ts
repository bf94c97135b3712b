/**
 * The client of Incus's REST API on its unix socket. Changes are operations, which calls wait for. Throws
 * `unavailable` where the daemon cannot be reached or goes away, and else its own words.
 */
import { SvcError, tellsFullDisk } from "../base/errors.ts";
import { type CallOptions, DockerClient } from "../docker/client.ts";
import { broken, unreachable } from "../docker/errors.ts";
import type { Answer } from "../docker/exchange.ts";
import { Sftp } from "./sftp.ts";
import { type IncusSocket, openSocket } from "./socket.ts";
import type { IncusEvent, Operation, ServerInfo } from "./types.ts";

/** The extension of the API that Incus 6.3 brought: OCI images as application containers. */
const OCI = "instance_oci";

export interface IncusClientOptions {
  /** Path of the unix socket. */
  socket: string;
  /** The project that calls are about, but for those about the server. */
  project: string;
}

export interface IncusCall extends Omit<CallOptions, "unversioned" | "path"> {
  /** Below "/1.0": "/instances/web-0". */
  path: string;
}

interface Reply<T> {
  metadata: T;
  /** Of an answer that comes later: "/1.0/operations/ID". */
  operation?: string;
}

const idOf = (operation: string) => operation.slice(operation.lastIndexOf("/") + 1);

/** The operation's failure, with a code by its words: operations have one status for all failures. */
function failed(attempted: string, { err, status_code }: Operation): SvcError {
  const words = err || (status_code === 401 ? "it was cancelled" : "it failed");
  const code = tellsFullDisk(words)
    ? "storage_full"
    : /not found/i.test(words)
    ? "not_found"
    : /already (exists|running|frozen)|is (in use|busy|running|not running)|isn't running/i.test(
        words,
      )
    ? "conflict"
    : "upstream_failed";
  const help = code === "storage_full"
    ? "free space on the daemon's volume"
    : "see the daemon's words above";
  return new SvcError(code, `${attempted}: ${words}`, { help });
}

export class IncusClient implements AsyncDisposable {
  readonly socket: string;
  readonly project: string;
  readonly #http: DockerClient;
  #server: Promise<ServerInfo> | undefined;

  constructor({ socket, project }: IncusClientOptions) {
    this.socket = socket;
    this.project = project;
    this.#http = new DockerClient({
      endpoint: { kind: "unix", address: `unix://${socket}`, path: socket },
      product: "the Incus daemon",
      help: "start the daemon, or set SVC_INCUS_SOCKET to its socket",
    });
  }

  get words() {
    return this.#http.words;
  }

  /** What the daemon is. Asked once, and again after it was lost. Throws `unsupported` for an old one. */
  server(): Promise<ServerInfo> {
    return this.#server ??= this.#ask().catch((error) => {
      this.#server = undefined;
      throw error;
    });
  }

  /** The daemon may be another one now. */
  forget(): void {
    this.#server = undefined;
  }

  async #ask(): Promise<ServerInfo> {
    const attempted = `Cannot use ${this.words.product}`;
    const found = await this.get<ServerInfo>({ path: "", attempted });
    if (found.auth !== "trusted") {
      throw new SvcError("denied", `${attempted}: it does not trust this server's user`, {
        help: "run the server as root, or as a member of the group incus-admin",
      });
    }
    if (found.api_extensions.includes(OCI)) return found;
    throw new SvcError(
      "unsupported",
      `${attempted}: ${found.environment.server_version ?? "this version"} runs no OCI images`,
      { help: "upgrade to Incus 6.3 or later" },
    );
  }

  #options({ path, query, ...rest }: IncusCall): CallOptions {
    return {
      ...rest,
      path: `/1.0${path}`,
      query: { project: this.project, ...query },
      unversioned: true,
    };
  }

  /** The answer's head and body: read it or cancel it. */
  raw(call: IncusCall): Promise<Answer> {
    return this.#http.call(this.#options(call));
  }

  async get<T>(call: IncusCall): Promise<T> {
    return (await this.#http.json<Reply<T>>(this.#options(call))).metadata;
  }

  /** Begins a change that goes on while its sockets are used. */
  async begin(call: IncusCall): Promise<Operation> {
    const { operation, metadata } = await this.#http.json<Reply<Operation>>(
      this.#options({ method: "POST", ...call }),
    );
    return { ...metadata, id: idOf(operation ?? metadata.id) };
  }

  /** Makes a change, and waits until it is done. An abort cancels it where Incus can. */
  async change(call: IncusCall): Promise<Operation | undefined> {
    const { operation } = await this.#http.json<Reply<Operation>>(this.#options(call)) ?? {};
    if (!operation) return undefined;
    return await this.wait(idOf(operation), call);
  }

  /** Waits for an operation. Throws what it failed with. */
  async wait(
    id: string,
    { attempted, signal }: Pick<IncusCall, "attempted" | "signal">,
  ): Promise<Operation> {
    const path = `/operations/${id}`;
    try {
      const done = await this.get<Operation>({
        path: `${path}/wait`,
        attempted,
        signal,
        headMs: Infinity,
      });
      if (done.status_code !== 200) throw failed(attempted, done);
      return done;
    } catch (error) {
      if (signal?.aborted) {
        await this.raw({ method: "DELETE", path, attempted }).then(({ body }) => body.cancel())
          .catch(() => {/* it cannot be cancelled, or is done */});
      }
      throw error;
    }
  }

  /** Files of an instance, or of a volume: `path` is theirs. A connection of its own; dispose of it. */
  async sftp(path: string, attempted: string, signal?: AbortSignal): Promise<Sftp> {
    const options = this.#options({ method: "GET", path: `${path}/sftp`, attempted, signal });
    return await Sftp.begin(await this.#http.upgrade(options, "sftp"), attempted);
  }

  async #open(path: string, attempted: string, more: { texts?: boolean; signal?: AbortSignal }) {
    try {
      return await openSocket({ socket: this.socket, path, ...more });
    } catch (error) {
      if (more.signal?.aborted) throw more.signal.reason;
      throw broken(this.words, attempted, error);
    }
  }

  /** A stream of an operation, by the secret that its metadata tell. */
  stream(
    id: string,
    secret: string,
    attempted: string,
    signal?: AbortSignal,
  ): Promise<IncusSocket> {
    const path = `/1.0/operations/${id}/websocket?secret=${secret}`;
    return this.#open(path, attempted, { signal });
  }

  /**
   * Resolves once the daemon watches: changes of the project from the call on. They end with the signal, and throw
   * `unavailable` where the daemon goes away.
   */
  async lifecycles(signal: AbortSignal): Promise<AsyncIterable<IncusEvent>> {
    const attempted = "Cannot watch the daemon's events";
    // Asks first: a refused connection has better words.
    this.forget();
    await this.server();
    const path = `/1.0/events?type=lifecycle&project=${encodeURIComponent(this.project)}`;
    const socket = await this.#open(path, attempted, { texts: true, signal });
    const close = () => socket.close();
    signal.addEventListener("abort", close, { once: true });
    const { words } = this;
    const forget = () => this.forget();
    return (async function* () {
      try {
        const decoder = new TextDecoder();
        for (let bytes = await socket.read(); bytes; bytes = await socket.read()) {
          yield JSON.parse(decoder.decode(bytes)) as IncusEvent;
        }
        if (signal.aborted) return;
        forget();
        throw unreachable(words, new Error("it went away"));
      } finally {
        signal.removeEventListener("abort", close);
        socket.close();
      }
    })();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http[Symbol.asyncDispose]();
  }
}
