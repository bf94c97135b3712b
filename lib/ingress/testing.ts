/** What this folder's tests share: a proxy whose clients and workloads are the test's own bytes. */
import { Buffer } from "node:buffer";
import type { IngressRoute } from "../api/ingress.ts";
import { type Logger, silent } from "../base/log.ts";
import type { Duplex } from "../wire/duplex.ts";
import { duplexPair } from "../wire/testing.ts";
import type { Arrival, IngressProxy, ProxyLimits } from "./interface.ts";
import { createIngressProxy } from "./proxy.ts";
import { IngressTable } from "./table.ts";

export const ROUTE: IngressRoute = {
  host: "a.test",
  path: "/",
  pathType: "Prefix",
  deployment: "web",
  port: 80,
  tls: false,
};

const toBytes = (text: string | Uint8Array) =>
  typeof text === "string" ? Buffer.from(text, "latin1") : text;

/** One end of a stream, as bytes of a test. */
export class Talker {
  #held = Buffer.alloc(0);

  constructor(readonly stream: Duplex) {}

  send(text: string | Uint8Array): Promise<void> {
    return this.stream.write(toBytes(text));
  }

  /** Everything up to `mark` and with it; what comes behind is kept. Undefined: it ended before. */
  async until(mark: string): Promise<string | undefined> {
    for (;;) {
      const at = this.#held.indexOf(mark, 0, "latin1");
      if (at >= 0) return this.exactly(at + mark.length);
      const more = await this.stream.read();
      if (!more) return undefined;
      this.#held = Buffer.concat([this.#held, more]);
    }
  }

  async exactly(count: number): Promise<string> {
    while (this.#held.length < count) {
      const more = await this.stream.read();
      if (!more) throw new Error("it ended early");
      this.#held = Buffer.concat([this.#held, more]);
    }
    const text = this.#held.toString("latin1", 0, count);
    this.#held = this.#held.subarray(count);
    return text;
  }

  head(): Promise<string | undefined> {
    return this.until("\r\n\r\n");
  }

  /** A head and the body whose length it tells. */
  async message(): Promise<string | undefined> {
    const head = await this.head();
    if (head === undefined) return undefined;
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0);
    return head + await this.exactly(length);
  }

  /** Everything to the end of the stream; what a broken one gave until then. */
  async rest(): Promise<{ text: string; broken: boolean }> {
    let broken = false;
    try {
      for (let more = await this.stream.read(); more; more = await this.stream.read()) {
        this.#held = Buffer.concat([this.#held, more]);
      }
    } catch {
      broken = true;
    }
    const text = this.#held.toString("latin1");
    this.#held = Buffer.alloc(0);
    return { text, broken };
  }

  end(): Promise<void> {
    return this.stream.closeWrite();
  }
}

export type Workload = (talker: Talker, connection: number) => Promise<void>;

/** Answers each connection's one request with `text`, and ends. */
export const answering = (text: string): Workload => async (talker) => {
  await talker.message();
  await talker.send(text);
  await talker.end();
};

export interface World extends AsyncDisposable {
  proxy: IngressProxy;
  table: IngressTable;
  /** Connections to workloads so far. */
  dials: () => number;
  open(arrival?: Partial<Arrival>): Talker;
  /** Sends `request`, ends nothing, and reads to the end of the connection. */
  ask(request: string | Uint8Array, arrival?: Partial<Arrival>): Promise<string>;
}

export interface WorldOptions {
  limits?: Partial<ProxyLimits>;
  routes?: IngressRoute[];
  /** Instead of a workload. */
  dial?: (signal: AbortSignal) => Promise<Duplex>;
  log?: Logger;
}

export function world(workload: Workload, options: WorldOptions = {}): World {
  const table = new IngressTable();
  for (const route of options.routes ?? [ROUTE]) table.set(route.deployment, [route]);
  let dials = 0;
  const running = new Set<Promise<void>>();
  const track = (work: Promise<void>) => {
    const done = work.finally(() => running.delete(done));
    running.add(done);
  };
  const proxy = createIngressProxy({
    match: (host, path) => table.match(host, path),
    dial: (_route, signal) => {
      const connection = dials++;
      if (options.dial) return options.dial(signal);
      const [near, far] = duplexPair();
      // A workload may be cut off in the middle of its sentence.
      track(workload(new Talker(far), connection).catch(() => {}));
      return Promise.resolve(near);
    },
    log: options.log ?? silent,
    limits: options.limits,
  });
  const open = (arrival: Partial<Arrival> = {}) => {
    const [near, far] = duplexPair();
    track(proxy.accept(far, { scheme: "http", remote: "192.0.2.7", ...arrival }));
    return new Talker(near);
  };
  return {
    proxy,
    table,
    dials: () => dials,
    open,
    async ask(request, arrival) {
      const client = open(arrival);
      await client.send(request);
      const { text } = await client.rest();
      await client.end();
      return text;
    },
    async [Symbol.asyncDispose]() {
      proxy[Symbol.dispose]();
      await Promise.all(running);
    },
  };
}
