/** Helpers for the tests of this folder: two ends in one process, and a repeatable random generator. */
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "./duplex.ts";
import type { Clock } from "./pace.ts";
import { ChunkQueue } from "./queue.ts";
import { type Link, type YamuxOptions, YamuxSession } from "./yamux/session.ts";

/** Runs of a property test; SVC_TEST_RUNS changes the number. */
export const RUNS = Number(Deno.env.get("SVC_TEST_RUNS") ?? 200);
export const SEED = 20260101;

export interface PairOptions {
  client?: Partial<YamuxOptions>;
  server?: Partial<YamuxOptions>;
  /** Splits the bytes into pieces of this size. */
  pieces?: number;
}

export interface Pair extends Disposable {
  client: YamuxSession;
  server: YamuxSession;
  /** The largest number of bytes in transit so far. */
  peak: () => number;
}

/** Two sessions; bytes arrive in a later turn, as from a network. */
export function yamuxPair(options: PairOptions = {}): Pair {
  let waiting = 0;
  let peak = 0;
  const link = (other: () => YamuxSession): Link => {
    let open = true;
    return {
      async send(head, data = new Uint8Array(0)) {
        const bytes = new Uint8Array(head.length + data.length);
        bytes.set(head);
        bytes.set(data, head.length);
        waiting += bytes.length;
        peak = Math.max(peak, waiting);
        await new Promise((resolve) => setImmediate(resolve));
        waiting -= bytes.length;
        const size = options.pieces ?? bytes.length;
        for (let at = 0; at < bytes.length && open; at += size) {
          other().receive(bytes.slice(at, at + size));
        }
      },
      close() {
        if (!open) return;
        open = false;
        setImmediate(() => other().lost());
      },
    };
  };
  const client: YamuxSession = new YamuxSession(link(() => server), {
    role: "client",
    keepAliveMs: 0,
    ...options.client,
  });
  const server: YamuxSession = new YamuxSession(link(() => client), {
    role: "server",
    keepAliveMs: 0,
    ...options.server,
  });
  return {
    client,
    server,
    peak: () => peak,
    [Symbol.dispose]: () => {
      client[Symbol.dispose]();
      server[Symbol.dispose]();
    },
  };
}

export async function readAll(stream: Pick<Duplex, "read">): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (let part = await stream.read(); part; part = await stream.read()) parts.push(part);
  return new Uint8Array(await new Blob(parts as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

/** Bytes whose values depend on their position. */
export function pattern(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0, state = seed; at < length; at++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    bytes[at] = state >> 16;
  }
  return bytes;
}

/** Two ends of one stream; a test may keep `peer` and send any bytes. */
export function duplexPair(): [Duplex, Duplex] {
  const queues = [new ChunkQueue(), new ChunkQueue()];
  const end = (own: ChunkQueue, other: ChunkQueue): Duplex => ({
    read: () => own.take(),
    write(bytes) {
      if (bytes.length > 0) other.push(bytes.slice());
      return Promise.resolve();
    },
    closeWrite: () => Promise.resolve(other.end()),
    reset() {
      const gone = new SvcError("upstream_failed", "Cannot use the stream: it was reset");
      for (const queue of [own, other]) {
        queue.drop();
        queue.fail(gone);
      }
    },
  });
  return [end(queues[0], queues[1]), end(queues[1], queues[0])];
}

/** A clock that stands still until it is moved. */
export class TestClock implements Clock {
  #now = 0;
  #next: { at: number; work: () => void } | undefined;
  #armed = Promise.withResolvers<void>();

  now = () => this.#now;

  after = (ms: number, work: () => void) => {
    const one = this.#next = { at: this.#now + ms, work };
    this.#armed.resolve();
    return () => {
      if (this.#next === one) this.#next = undefined;
      this.#armed = Promise.withResolvers();
    };
  };

  /** Moves the clock on as soon as somebody waits. */
  async move(ms: number): Promise<void> {
    await this.#armed.promise;
    this.#now += ms;
    const due = this.#next;
    if (due && due.at <= this.#now) due.work();
  }
}

/** A client's stream that counts how often something is sent after an answer has come, and how often one came. */
export function counting(stream: Duplex): Duplex & { trips: number; heard: number } {
  let heard = true;
  return {
    trips: 0,
    heard: 0,
    async read() {
      const bytes = await stream.read();
      this.heard++;
      heard = true;
      return bytes;
    },
    write(bytes) {
      if (heard) this.trips++;
      heard = false;
      return stream.write(bytes);
    },
    closeWrite: () => stream.closeWrite(),
    reset: (why) => stream.reset(why),
  };
}

/** A stream whose bytes arrive `ms` after they were sent. */
export function delayed(stream: Duplex, ms: number): Duplex {
  const coming: Promise<Uint8Array | undefined>[] = [];
  let more = Promise.withResolvers<void>();
  const pump = async () => {
    for (;;) {
      const bytes = await stream.read().catch(() => undefined);
      const arrives = new Promise<void>((resolve) => setTimeout(resolve, ms));
      coming.push(arrives.then(() => bytes));
      more.resolve();
      if (!bytes) return;
    }
  };
  void pump();
  return {
    async read() {
      while (coming.length === 0) {
        more = Promise.withResolvers();
        await more.promise;
      }
      return await coming.shift();
    },
    write: (bytes) => stream.write(bytes),
    closeWrite: () => stream.closeWrite(),
    reset: (why) => stream.reset(why),
  };
}
