/** The tunnels that are open: they belong to this process and end with it. */
import type { TunnelProtocol, TunnelStatus } from "../api/tunnel.ts";
import { asSvcError, isAbort, SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Duplex } from "../wire/duplex.ts";
import type { OpenTunnel, Tunnel, TunnelChange } from "./tunnel.ts";

/** Each has a connection of its own to somewhere, and visitors. */
const MOST = 64;

export interface TunnelsOptions {
  /** The backend of that name. Throws why it cannot be used. */
  backend: (name: string) => Promise<Tunnel>;
  /** Where a request names none. */
  defaultBackend: string;
  /** Of the default backend, where a request brings none. */
  credential?: string;
  /** Backends that can be used, for `/info`. */
  usable: readonly string[];
  log: Logger;
}

export interface TunnelWish {
  deployment: string;
  port: number;
  protocol: TunnelProtocol;
  backend?: string;
  credential?: string;
  /** It ends with the request that opens it. */
  held: boolean;
  subject: string;
  /** Serves one visitor, until the stream has ended or the tunnel does. */
  serve: (stream: Duplex, signal: AbortSignal) => Promise<void>;
}

/** A tunnel that is open. */
export class Entry {
  readonly status: TunnelStatus;
  /** Told of what changes from now on. */
  onChange?: (change: TunnelChange) => void;
  /** Resolves at its end: with why, where it was not closed on purpose. */
  readonly closed: Promise<SvcError | undefined>;
  readonly #over = new AbortController();
  readonly #ended = Promise.withResolvers<SvcError | undefined>();
  #tunnel?: OpenTunnel;

  constructor(status: TunnelStatus) {
    this.status = status;
    this.closed = this.#ended.promise;
  }

  /** Aborts at its end. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  attach(tunnel: OpenTunnel): void {
    this.#tunnel = tunnel;
    this.status.url = tunnel.url;
    void tunnel.closed.then((why) => this.end(why));
  }

  end(why?: SvcError): void {
    this.#over.abort(new DOMException("the tunnel was closed", "AbortError"));
    this.#ended.resolve(why);
  }

  changed(change: TunnelChange): void {
    this.status.state = change.state;
    if (change.state === "up") {
      this.status.url = change.url;
      delete this.status.reason;
    } else this.status.reason = change.reason;
    this.onChange?.(change);
  }

  /** Idempotent. */
  async close(): Promise<void> {
    await this.#tunnel?.[Symbol.asyncDispose]();
  }
}

export class Tunnels implements AsyncDisposable {
  readonly #options: TunnelsOptions;
  readonly #open = new Map<string, Entry>();
  readonly #ended = new AbortController();
  /** Those that are being opened count too. */
  #opening = 0;

  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  get defaultBackend(): string {
    return this.#options.defaultBackend;
  }

  get usable(): readonly string[] {
    return this.#options.usable;
  }

  list(): TunnelStatus[] {
    return [...this.#open.values()].map(({ status }) => status);
  }

  get(id: string): Entry | undefined {
    return this.#open.get(id);
  }

  /** Throws what `Tunnel.open` does, and `unavailable` where there are too many. */
  async open(wish: TunnelWish, signal: AbortSignal): Promise<Entry> {
    if (this.#open.size + this.#opening >= MOST) {
      throw new SvcError("unavailable", `Cannot open a tunnel: ${MOST} are open`, {
        help: "close one that nobody needs; `GET /.svc/v1/tunnels` lists them",
      });
    }
    this.#opening++;
    try {
      return await this.#openOne(wish, AbortSignal.any([signal, this.#ended.signal]));
    } finally {
      this.#opening--;
    }
  }

  async #openOne(wish: TunnelWish, signal: AbortSignal): Promise<Entry> {
    const { deployment, port, protocol, held, subject } = wish;
    const backend = wish.backend ?? this.#options.defaultBackend;
    const own = backend === this.#options.defaultBackend ? this.#options.credential : undefined;
    const log = this.#options.log.with({ tunnel: `${deployment}:${port}`, backend });
    const entry = new Entry({
      ...{ id: crypto.randomUUID(), deployment, port, protocol, backend, url: "", state: "up" },
      ...{ held, connections: 0, subject, openedAt: new Date().toISOString() },
    });
    const tunnel = await (await this.#options.backend(backend)).open({
      name: deployment,
      protocol,
      credential: wish.credential ?? own,
      accept: (stream) => void visit(stream, wish, entry, log),
      onChange: (change) => entry.changed(change),
    }, signal);
    entry.attach(tunnel);
    const { id } = entry.status;
    this.#open.set(id, entry);
    log.info("a tunnel is open", { id, url: tunnel.url, subject });
    void entry.closed.then((why) => {
      this.#open.delete(id);
      if (why) log.warn("a tunnel was given up", { id, error: why });
      else log.info("a tunnel is closed", { id });
    });
    return entry;
  }

  /** Closes all of them, and opens none any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort(new DOMException("the server is shutting down", "AbortError"));
    await Promise.all([...this.#open.values()].map((entry) => entry.close()));
  }
}

/** One visitor. What goes wrong with one is told to that one, and to the log of who looks for it. */
async function visit(
  stream: Duplex,
  { serve }: TunnelWish,
  { status, over }: Entry,
  log: Logger,
): Promise<void> {
  status.connections++;
  try {
    await serve(stream, over);
  } catch (error) {
    if (!isAbort(error)) log.debug("a visitor's connection failed", { error: asSvcError(error) });
  } finally {
    status.connections--;
    stream.reset();
  }
}
