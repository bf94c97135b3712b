/** What the tests of the proxy share: services in memory, a client of raw bytes. */
import type { DeploymentStatus } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { connDuplex, type Duplex } from "../../wire/duplex.ts";
import type { Services } from "./services.ts";
import { openSocks5, type Socks5, type Socks5Options } from "./socks5.ts";

export function deployment(name: string, more: Partial<DeploymentStatus> = {}): DeploymentStatus {
  return {
    name,
    state: "running",
    image: "app",
    ports: [],
    instances: [],
    createdAt: "2026-01-01T00:00:00Z",
    updatedAt: "2026-01-01T00:00:00Z",
    warnings: [],
    ...more,
  };
}

/** Services that are ports of loopback; `dialled` has "name:port" of each connection. */
export class LocalServices implements Services {
  readonly dialled: string[] = [];
  lists = 0;
  readonly #ports: Record<string, number>;

  /** `ports`: where the service of a name listens. */
  constructor(ports: Record<string, number>) {
    this.#ports = ports;
  }

  async dial(name: string, port: number): Promise<Duplex> {
    this.dialled.push(`${name}:${port}`);
    const local = this.#ports[name];
    if (local === undefined) {
      throw new SvcError("not_found", `Cannot reach ${name}: there is no such deployment`);
    }
    return connDuplex(await Deno.connect({ hostname: "127.0.0.1", port: local }));
  }

  list(): Promise<DeploymentStatus[]> {
    this.lists++;
    return Promise.resolve(Object.keys(this.#ports).map((name) => deployment(name)));
  }
}

export interface Listening extends AsyncDisposable {
  readonly port: number;
}

/** Calls `serve` for each connection and resets it afterwards. */
export function listening(serve: (stream: Duplex) => Promise<void>): Listening {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open = new Set<Duplex>();
  const serving = new Set<Promise<void>>();
  const accepting = (async () => {
    for await (const conn of listener) {
      const stream = connDuplex(conn);
      open.add(stream);
      const served = serve(stream).catch(() => {/* the client went away */}).finally(() => {
        stream.reset();
        open.delete(stream);
        serving.delete(served);
      });
      serving.add(served);
    }
  })();
  return {
    port: listener.addr.port,
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const stream of open) stream.reset();
      await accepting;
      await Promise.all(serving);
    },
  };
}

/** Says `greeting`, then gives back what it gets; ends when the client has ended. */
export const echo = (greeting: string) =>
  listening(async (stream) => {
    await stream.write(new TextEncoder().encode(greeting));
    for (let bytes = await stream.read(); bytes; bytes = await stream.read()) {
      await stream.write(bytes);
    }
    await stream.closeWrite();
  });

export interface TestProxy extends Socks5 {
  readonly told: string[];
  readonly port: number;
}

export async function testProxy(
  services: Services,
  options: Partial<Socks5Options> = {},
): Promise<TestProxy> {
  const told: string[] = [];
  const proxy = await openSocks5({
    listen: "127.0.0.1:0",
    services,
    warn: (text) => void told.push(text),
    ...options,
  });
  const port = Number(proxy.address.split(":").at(-1));
  return {
    told,
    port,
    address: proxy.address,
    closed: proxy.closed,
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}

export const HELLO = [5, 1, 0];

/** What a client sees that was reset, wherever it was at that moment. */
export const isReset = (error: unknown): boolean =>
  error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe ||
  error instanceof Deno.errors.NotConnected;

/** CONNECT to a name. */
export function request(host: string, port: number, command = 1): number[] {
  const name = new TextEncoder().encode(host);
  return [5, command, 0, 3, name.length, ...name, port >> 8, port & 255];
}

export class RawClient implements Disposable {
  #rest: Uint8Array = new Uint8Array(0);
  readonly stream: Duplex;

  constructor(stream: Duplex) {
    this.stream = stream;
  }

  static async open(port: number): Promise<RawClient> {
    return new RawClient(connDuplex(await Deno.connect({ hostname: "127.0.0.1", port })));
  }

  send(bytes: number[] | string): Promise<void> {
    return this.stream.write(
      typeof bytes === "string" ? new TextEncoder().encode(bytes) : new Uint8Array(bytes),
    );
  }

  /** So many bytes, or fewer at the end. */
  async take(size: number): Promise<number[]> {
    while (this.#rest.length < size) {
      const more = await this.stream.read();
      if (!more) break;
      this.#rest = new Uint8Array([...this.#rest, ...more]);
    }
    const taken = this.#rest.subarray(0, size);
    this.#rest = this.#rest.subarray(size);
    return [...taken];
  }

  async text(size: number): Promise<string> {
    return new TextDecoder().decode(new Uint8Array(await this.take(size)));
  }

  /** Everything up to the end. */
  rest(): Promise<number[]> {
    return this.take(Infinity);
  }

  [Symbol.dispose](): void {
    this.stream.reset();
  }
}

/** Greets and asks for `host:port`; the client, and the code of the answer. */
export async function connected(
  proxy: TestProxy,
  host: string,
  port: number,
): Promise<{ client: RawClient; reply: number } & Disposable> {
  const client = await RawClient.open(proxy.port);
  try {
    await client.send([...HELLO, ...request(host, port)]);
    await client.take(2);
    const [, reply] = await client.take(10);
    return { client, reply, [Symbol.dispose]: () => client.stream.reset() };
  } catch (error) {
    client.stream.reset();
    throw error;
  }
}
