/** Reading many small objects in another thread: the side of the store. */
import { Buffer } from "node:buffer";
import { SvcError } from "../../../lib/base/errors.ts";
import { startWorker } from "../../../lib/base/worker.ts";
import type { ScanPage } from "../../../lib/store/object_store.ts";
import type { ScanAsk, ScannedPage, ScanTell } from "./scan_wire.ts";

/** A thread that has nothing to do ends after this. */
const IDLE_MS = 15_000;

export interface ScanOptions {
  bytes?: boolean;
  signal?: AbortSignal;
}

const failure = (prefix: string, why: string) =>
  new SvcError("internal", `Cannot read the objects below ${prefix}: ${why}`);

/** A worker, which answers one question at a time. */
class Thread {
  readonly #worker = startWorker("scan");
  #answer: PromiseWithResolvers<ScanTell> | undefined;
  #failure: ScanTell | undefined;
  /** Ends with the answer to the last question. */
  #asked: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<ScanTell>) => this.#answer?.resolve(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#failure = { type: "failed", message: `the thread failed: ${event.message}` };
      this.#answer?.resolve(this.#failure);
    };
  }

  /** It answers no more. */
  get broken(): boolean {
    return this.#failure !== undefined;
  }

  async ask(message: ScanAsk): Promise<ScanTell> {
    if (this.#failure) return this.#failure;
    this.#answer = Promise.withResolvers();
    const spare = message.type === "next" ? message.spare : undefined;
    this.#worker.postMessage(message, spare ? [spare] : []);
    this.#asked = this.#answer.promise;
    return await this.#answer.promise;
  }

  /** Once it has answered: what it has open meanwhile would stay open. */
  async end(): Promise<void> {
    await this.#asked;
    this.#worker.terminate();
  }
}

function pageOf({ buffer, sizes, keysAt, end }: ScannedPage): ScanPage {
  const bytes = Buffer.from(buffer, 0, end);
  const keys: string[] = [];
  // Each a string of its own: a part of a longer one would keep all of that in memory.
  for (let start = keysAt, stop; start < end; start = stop + 1) {
    stop = bytes.indexOf(0, start);
    keys.push(bytes.toString("latin1", start, stop));
  }
  if (!sizes) return { keys };
  let at = 0;
  return {
    keys,
    contents: sizes.map((size) => {
      at += size;
      return new Uint8Array(buffer, at - size, size);
    }),
  };
}

export class Scanner {
  #threads = new Set<Thread>();
  /** One that waits for work. */
  #idle: Thread | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closing = new AbortController();

  /** What lies below `prefix` of the folder `root`; while one page is looked at the next is read. */
  async *scan(
    root: string,
    prefix: string,
    { bytes = false, signal }: ScanOptions,
  ): AsyncGenerator<ScanPage> {
    const ended = AbortSignal.any([this.#closing.signal, ...signal ? [signal] : []]);
    ended.throwIfAborted();
    const given = Promise.withResolvers<never>();
    given.promise.catch(() => {});
    const giveUp = () => given.reject(ended.reason);
    ended.addEventListener("abort", giveUp, { once: true });
    const thread = this.#take();
    let coming = thread.ask({ type: "begin", root, prefix, bytes });
    let spare: ArrayBuffer | undefined;
    try {
      for (;;) {
        const told = await Promise.race([coming, given.promise]);
        ended.throwIfAborted();
        if (told.type === "failed") throw failure(prefix, told.message);
        if (told.type === "end") return;
        coming = thread.ask({ type: "next", spare });
        const page = pageOf(told);
        if (page.keys.length > 0) yield page;
        spare = told.buffer;
      }
    } finally {
      ended.removeEventListener("abort", giveUp);
      void coming.then(() => this.#give(thread));
    }
  }

  #take(): Thread {
    clearTimeout(this.#timer);
    const thread = this.#idle ?? new Thread();
    this.#idle = undefined;
    this.#threads.add(thread);
    return thread;
  }

  #give(thread: Thread): void {
    if (thread.broken || this.#idle || this.#closing.signal.aborted) return this.#end(thread);
    this.#idle = thread;
    this.#timer = setTimeout(() => {
      this.#idle = undefined;
      this.#end(thread);
    }, IDLE_MS);
    Deno.unrefTimer(this.#timer);
  }

  #end(thread: Thread): void {
    this.#threads.delete(thread);
    void thread.end();
  }

  /** What is under way fails. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("internal", "Cannot read the store: it is closing"));
    clearTimeout(this.#timer);
    await Promise.all([...this.#threads].map((thread) => thread.end()));
  }
}
