/** The open tunnels. They belong to this process and end with it. */
import type { TunnelAim, TunnelProtocol, TunnelStatus } from "../api/tunnel.ts";
import { asSvcError, isAbort, SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Duplex } from "../wire/duplex.ts";
import type { OpenTunnel, Tunnel, TunnelChange } from "./tunnel.ts";

/** Tunnels at once: each has a connection to its backend, and visitors. */
const MOST = 64;

export interface TunnelsOptions {
  /** The backend of that name. Throws why the backend cannot be used. */
  backend: (name: string) => Promise<Tunnel>;
  /** Backend for requests that name none. */
  defaultBackend: string;
  /** Credential for the default backend, where a request brings none. */
  credential?: string;
  /** Backends that can be used; shown in `/info`. */
  usable: readonly string[];
  log: Logger;
}

export interface Visit {
  /** Aborts when the tunnel ends. */
  signal: AbortSignal;
  /** The visitor's address, if known. */
  from?: string;
  tunnel: Readonly<TunnelStatus>;
}

export interface TunnelWish {
  /** As in `TunnelRequest`. */
  name: string;
  hostname?: string;
  /** The aim, or a function that derives it from the URL; an error of the function closes the tunnel. */
  aim: TunnelAim | ((url: string) => TunnelAim);
  protocol: TunnelProtocol;
  backend?: string;
  credential?: string;
  /** True: the tunnel ends with the request that opens it. */
  held: boolean;
  subject: string;
  /** Serves one visitor, until the stream or the tunnel ends. */
  serve: (stream: Duplex, visit: Visit) => Promise<void>;
}

/** "web:8080", or "ingress (alias app.example)". */
export function shownAim({ deployment, port, ingress }: TunnelAim): string {
  if (!ingress) return `${deployment}:${port}`;
  const { hostMode, host } = ingress;
  return `ingress (${hostMode}${host === undefined ? "" : ` ${host}`})`;
}

/** An open tunnel. */
export class Entry {
  readonly status: TunnelStatus;
  /** Called with each later change. */
  onChange?: (change: TunnelChange) => void;
  /** Resolves at the end; with the error, unless the tunnel was closed on purpose. */
  readonly closed: Promise<SvcError | undefined>;
  readonly #over = new AbortController();
  readonly #ended = Promise.withResolvers<SvcError | undefined>();
  readonly #tunnel: OpenTunnel;

  constructor(status: TunnelStatus, tunnel: OpenTunnel) {
    this.status = status;
    this.closed = this.#ended.promise;
    this.#tunnel = tunnel;
    void tunnel.closed.then((why) => {
      this.#over.abort(new DOMException("the tunnel was closed", "AbortError"));
      this.#ended.resolve(why);
    });
  }

  /** Aborts at the tunnel's end. */
  get over(): AbortSignal {
    return this.#over.signal;
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
    await this.#tunnel[Symbol.asyncDispose]();
  }
}

export class Tunnels implements AsyncDisposable {
  readonly #options: TunnelsOptions;
  readonly #open = new Map<string, Entry>();
  readonly #ended = new AbortController();
  /** Tunnels that are being opened count against the limit too. */
  #opening = 0;

  constructor(options: TunnelsOptions) {
    this.#options = options;
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

  /** Throws what `Tunnel.open` throws, and `unavailable` at the limit. */
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
    const { name, hostname, protocol } = wish;
    const backend = wish.backend ?? this.#options.defaultBackend;
    const own = backend === this.#options.defaultBackend ? this.#options.credential : undefined;
    const log = this.#options.log.with({ tunnel: name, backend });
    // Visitors may come before `open` has returned: they wait for the entry.
    const made = Promise.withResolvers<Entry>();
    made.promise.catch(() => {/* told to who opens it */});
    const tunnel = await (await this.#options.backend(backend)).open({
      ...{ name, hostname, protocol, credential: wish.credential ?? own },
      accept: (stream, from) => void visit(stream, from, wish, made.promise, log),
      onChange: (change) => void made.promise.then((entry) => entry.changed(change), () => {}),
    }, signal);
    try {
      made.resolve(this.#keep(wish, backend, tunnel, log));
    } catch (error) {
      made.reject(error);
      await tunnel[Symbol.asyncDispose]();
    }
    return await made.promise;
  }

  #keep(wish: TunnelWish, backend: string, tunnel: OpenTunnel, log: Logger): Entry {
    const { aim, protocol, held, subject } = wish;
    const { url } = tunnel;
    const id = crypto.randomUUID();
    const entry = new Entry({
      ...(typeof aim === "function" ? aim(url) : aim),
      ...{ id, protocol, backend, url, state: "up", held, connections: 0, subject },
      openedAt: new Date().toISOString(),
    }, tunnel);
    this.#open.set(id, entry);
    log.info("a tunnel is open", { id, to: shownAim(entry.status), url, subject });
    void entry.closed.then((why) => {
      this.#open.delete(id);
      if (why) log.warn("a tunnel failed", { id, error: why });
      else log.info("a tunnel is closed", { id });
    });
    return entry;
  }

  /** Closes all tunnels; no further one can be opened. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort(new DOMException("the server is shutting down", "AbortError"));
    await Promise.all([...this.#open.values()].map((entry) => entry.close()));
  }
}

/** Serves one visitor. An error ends only this stream, and is written to the debug log. */
async function visit(
  stream: Duplex,
  from: string | undefined,
  { serve }: TunnelWish,
  made: Promise<Entry>,
  log: Logger,
): Promise<void> {
  let status: TunnelStatus | undefined;
  try {
    const entry = await made;
    status = entry.status;
    status.connections++;
    await serve(stream, { signal: entry.over, from, tunnel: status });
  } catch (error) {
    if (!isAbort(error)) log.debug("a visitor's connection failed", { error: asSvcError(error) });
  } finally {
    if (status) status.connections--;
    stream.reset();
  }
}
