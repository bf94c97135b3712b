/**
 * A proxy for what the server fetches for a build. It looks each host name up once, checks the addresses, and
 * connects to exactly those. So no redirect, no second DNS answer and no program that fetches can lead back
 * to this host. Each fetch has a proxy of its own, on loopback, with a password.
 */
import { SvcError } from "../../base/errors.ts";
import { isIP } from "node:net";
import { lastWords } from "../../remote/transport.ts";
import { nearAddress } from "../../base/near_address.ts";
import { ownAddresses } from "../../runtime/own_addresses.ts";
import { type Upstream, upstreamOf } from "./upstream_proxy.ts";

/** Bytes of a request's head, at most. */
const MAX_HEAD = 64 * 1024;

export type Resolve = (host: string) => Promise<string[]>;

/** Addresses from the system's resolver, /etc/hosts included. */
const systemResolve: Resolve = async (host) => {
  const { lookup } = await import("node:dns/promises");
  return (await lookup(host, { all: true })).map(({ address }) => address);
};

export interface CheckOptions {
  signal: AbortSignal;
  resolve?: Resolve;
  own?: () => string[];
  /** The proxy that the server's environment names. */
  upstream?: (secure: boolean, host: string) => Upstream | undefined;
}

interface Head {
  method: string;
  target: string;
  /** Header lines without the proxy's own. */
  lines: string[];
  authorization?: string;
  rest: Uint8Array;
}

const decoder = new TextDecoder("latin1");

/** Reads the head of a request; undefined where the connection ends first. */
async function readHead(conn: Deno.Conn): Promise<Head | undefined> {
  let bytes = new Uint8Array();
  const buffer = new Uint8Array(16 * 1024);
  while (bytes.length < MAX_HEAD) {
    const end = decoder.decode(bytes).indexOf("\r\n\r\n");
    if (end >= 0) {
      const [first, ...lines] = decoder.decode(bytes.subarray(0, end)).split("\r\n");
      const [method, target] = first.split(" ");
      const authorization = lines.find((line) => /^proxy-authorization:/i.test(line));
      return {
        method,
        target,
        lines: lines.filter((line) => !/^(proxy-[\w-]+|connection|keep-alive):/i.test(line)),
        authorization: authorization?.slice(authorization.indexOf(":") + 1).trim(),
        rest: bytes.subarray(end + 4),
      };
    }
    const got = await conn.read(buffer);
    if (got === null) return undefined;
    const more = new Uint8Array(bytes.length + got);
    more.set(bytes);
    more.set(buffer.subarray(0, got), bytes.length);
    bytes = more;
  }
  return undefined;
}

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

const say = (conn: Deno.Conn, text: string) => writeAll(conn, new TextEncoder().encode(text));

/**
 * Runs `make` without NO_PROXY in the environment: a client reads that variable when it is made, and would
 * connect past the proxy to the hosts in it.
 */
function withoutExceptions<T>(make: () => T): T {
  const kept = ["NO_PROXY", "no_proxy"].map((name) => [name, Deno.env.get(name)] as const);
  for (const [name] of kept) Deno.env.delete(name);
  try {
    return make();
  } finally {
    for (const [name, value] of kept) if (value !== undefined) Deno.env.set(name, value);
  }
}

export class CheckedProxy implements Disposable {
  /** Why a fetch was refused; undefined where none was. */
  refusal: SvcError | undefined;
  /** Why the last connection failed. The client itself sees only the proxy's answer, a 502. */
  unreachable: string | undefined;
  #listener: Deno.TcpListener;
  #secret = crypto.randomUUID();
  #options: CheckOptions;
  #open = new Set<Deno.Conn>();
  #client: Deno.HttpClient | undefined;

  constructor(options: CheckOptions) {
    this.#options = options;
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#accept();
  }

  /** The proxy's address, for programs that take a proxy by URL. */
  get url(): string {
    return `http://svc:${this.#secret}@127.0.0.1:${this.#listener.addr.port}`;
  }

  /** The proxy as a client, for fetch. */
  get client(): Deno.HttpClient {
    return this.#client ??= withoutExceptions(() =>
      Deno.createHttpClient({
        proxy: {
          url: `http://127.0.0.1:${this.#listener.addr.port}`,
          basicAuth: { username: "svc", password: this.#secret },
        },
      })
    );
  }

  /**
   * Addresses of `host` that may be connected to. Throws `denied` where one of them leads back to this host.
   */
  async addressesOf(host: string): Promise<string[]> {
    const { resolve = systemResolve, own = ownAddresses } = this.#options;
    const bare = host.replace(/^\[(.*)\]$/, "$1");
    const found = isIP(bare) ? [bare] : await resolve(bare);
    const mine = own();
    for (const address of found) {
      const why = nearAddress(address, mine);
      if (why === undefined) continue;
      const named = address === bare ? bare : `${bare} (${address})`;
      throw this.refusal ??= new SvcError(
        "denied",
        `Cannot connect to ${named} for a build: it is ${why}`,
        {
          help: "fetch from another host, or have the server grant network.host " +
            "(SVC_BUILD_ENTITLEMENTS) and ask for it with --allow network.host",
        },
      );
    }
    return found;
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    this.#client?.close();
    for (const conn of this.#open) this.#close(conn);
  }

  #close(conn: Deno.Conn): void {
    if (!this.#open.delete(conn)) return;
    try {
      conn.close();
    } catch {
      // The connection broke.
    }
  }

  async #accept(): Promise<void> {
    try {
      for await (const conn of this.#listener) {
        this.#open.add(conn);
        this.#serve(conn).catch(() => {/* the connection broke */}).finally(() =>
          this.#close(conn)
        );
      }
    } catch {
      // The listener was closed.
    }
  }

  async #serve(conn: Deno.Conn): Promise<void> {
    const head = await readHead(conn);
    if (!head) return;
    if (head.authorization !== `Basic ${btoa(`svc:${this.#secret}`)}`) {
      return await say(
        conn,
        'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="svc"\r\n' +
          "Content-Length: 0\r\nConnection: close\r\n\r\n",
      );
    }
    const tunnel = head.method === "CONNECT";
    const address = tunnel ? `http://${head.target}` : head.target;
    if (!URL.canParse(address)) {
      return await say(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    }
    const url = new URL(address);
    const port = Number(url.port) || (tunnel && !/:80$/.test(head.target) ? 443 : 80);
    const { upstream: find = upstreamOf } = this.#options;
    const upstream = find(tunnel, url.hostname);
    let far: Deno.Conn;
    try {
      far = await this.#connect(url.hostname, port, upstream);
    } catch (error) {
      this.unreachable = `cannot connect to ${url.host}: ${lastWords(error)}`;
      const status = this.refusal ? "403 Forbidden" : "502 Bad Gateway";
      return await say(
        conn,
        `HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
      );
    }
    this.unreachable = undefined;
    this.#open.add(far);
    try {
      // An upstream proxy sends its own answer to CONNECT.
      if (tunnel && !upstream) await say(conn, "HTTP/1.1 200 Connection established\r\n\r\n");
      else {
        // One request per connection: the next request may be for another host.
        const target = upstream ? head.target : `${url.pathname}${url.search}`;
        const lines = [`${head.method} ${target} HTTP/1.1`, ...head.lines];
        if (upstream?.authorization) lines.push(`Proxy-Authorization: ${upstream.authorization}`);
        if (!tunnel) lines.push("Connection: close");
        await say(far, `${lines.join("\r\n")}\r\n\r\n`);
      }
      await writeAll(far, head.rest);
      const up = conn.readable.pipeTo(far.writable).catch(() => {/* the far side has closed */});
      await far.readable.pipeTo(conn.writable).catch(() => {/* the client has closed */});
      this.#close(far);
      this.#close(conn);
      await up;
    } finally {
      this.#close(far);
    }
  }

  async #connect(host: string, port: number, upstream?: Upstream): Promise<Deno.Conn> {
    const { signal } = this.#options;
    if (upstream) {
      // The upstream proxy may know host names that this resolver does not.
      await this.addressesOf(host).catch((error) => {
        if (error instanceof SvcError) throw error;
      });
      return await Deno.connect({ hostname: upstream.hostname, port: upstream.port, signal });
    }
    let failure: unknown = new Error("no address");
    for (const hostname of await this.addressesOf(host)) {
      try {
        return await Deno.connect({ hostname, port, signal });
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }
}
