/** The event loop's side of the uploads' thread. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { LentConnection } from "../../../lib/base/request_body.ts";
import { startWorker } from "../../../lib/base/worker.ts";
import { WORKER_IDLE_MS } from "../../../lib/base/worker_pool.ts";
import type { DigestAlgorithm } from "../../../lib/oci/digest.ts";
import type { Digest } from "../../../lib/oci/types.ts";
import type { DigestJob, Outcome, ReceiveJob, Tell } from "./intake_wire.ts";

export interface Received {
  /** Bytes of the body that are in the file. */
  written: number;
  outcome: Outcome;
}

interface Job {
  moved: (bytes: number) => void;
  resolve: (tell: Tell) => void;
  reject: (error: Error) => void;
}

export class Intake {
  #worker: Worker | undefined;
  #jobs = new Map<number, Job>();
  #counter = 0;
  #hashed = new Set<string>();
  #idle: ReturnType<typeof setTimeout> | undefined;

  /**
   * Writes a body to a file from `offset` on. However it ends, the bytes that arrived are in the file, but not
   * synced. Where `outcome` is "failed", the file may hold garbage behind them.
   */
  async receive(
    source: LentConnection,
    options: Omit<ReceiveJob, "type" | "job" | "socket" | "length" | "prefix"> & {
      signal: AbortSignal;
      moved: (bytes: number) => void;
    },
  ): Promise<Received> {
    const { signal, moved, ...file } = options;
    const { descriptor: socket, length, prefix } = source;
    const job = ++this.#counter;
    const stop = () => this.#worker?.postMessage({ type: "stop", job });
    signal.addEventListener("abort", stop, { once: true });
    this.#hashed.add(file.path);
    let rest: Uint8Array | undefined;
    try {
      if (signal.aborted) throw signal.reason;
      const told = await this.#ask(
        { type: "receive", job, socket, length, prefix, ...file },
        (bytes) => {
          source.moved(bytes);
          moved(bytes);
        },
      );
      if (told.type !== "received") throw new SvcError("internal", "Cannot receive: wrong answer");
      if (told.outcome.how === "whole") rest = told.outcome.rest;
      return { written: told.written, outcome: told.outcome };
    } finally {
      signal.removeEventListener("abort", stop);
      source.end(rest);
    }
  }

  /** The digest of a file's first `size` bytes; received bytes are not read again. */
  async digest(path: string, size: number, algorithm: DigestAlgorithm): Promise<Digest> {
    this.#hashed.add(path);
    const job = ++this.#counter;
    const told = await this.#ask({ type: "digest", job, path, size, algorithm });
    if (told.type === "digest") return told.digest;
    const why = told.type === "failed" ? told.message : "wrong answer";
    throw new SvcError("internal", `Cannot hash ${path}: ${why}`);
  }

  /** The file is no longer an upload. */
  forget(path: string): void {
    if (!this.#hashed.delete(path)) return;
    this.#worker?.postMessage({ type: "forget", path });
    this.#rest();
  }

  #ask(message: ReceiveJob | DigestJob, moved: Job["moved"] = () => {}): Promise<Tell> {
    clearTimeout(this.#idle);
    const worker = this.#worker ??= this.#start();
    const { promise, resolve, reject } = Promise.withResolvers<Tell>();
    this.#jobs.set(message.job, { moved, resolve, reject });
    worker.postMessage(message);
    return promise.finally(() => {
      this.#jobs.delete(message.job);
      this.#rest();
    });
  }

  #start(): Worker {
    const worker = startWorker("intake");
    worker.onmessage = ({ data }: MessageEvent<Tell>) => {
      const job = this.#jobs.get(data.job);
      if (data.type === "moved") job?.moved(data.bytes);
      else job?.resolve(data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (this.#worker === worker) this.#worker = undefined;
      worker.terminate();
      this.#fail(`the worker failed: ${event.message}`);
    };
    return worker;
  }

  #fail(why: string): void {
    for (const { reject } of this.#jobs.values()) {
      reject(new SvcError("internal", `Cannot take in the upload: ${why}`));
    }
  }

  #rest(): void {
    clearTimeout(this.#idle);
    if (!this.#worker || this.#jobs.size > 0 || this.#hashed.size > 0) return;
    this.#idle = setTimeout(() => this.#end(), WORKER_IDLE_MS);
    Deno.unrefTimer(this.#idle);
  }

  #end(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
  }

  /** Work under way fails. */
  close(): void {
    clearTimeout(this.#idle);
    this.#fail("the store is closing");
    this.#end();
  }
}
