/** The body of a request on its way from the connection to its reader, with backpressure. */
import { SvcError } from "../../base/errors.ts";
import type { Peer } from "./peer.ts";

/** Bytes that may wait here before the connection is read no further. */
const WINDOW = 512 * 1024;

export interface BodyQueueOptions {
  peer: Peer;
  /** Called once, when the body is first read. */
  open: () => void;
  /** There is room again after {@linkcode BodyQueue.push} returned false. */
  resume: () => void;
  /** The reader has cancelled the stream. */
  cancel: () => void;
}

/** The source of a stream. */
export class BodyQueue implements UnderlyingDefaultSource<Uint8Array<ArrayBuffer>> {
  #queue: Uint8Array<ArrayBuffer>[] = [];
  #queued = 0;
  #full = false;
  #opened = false;
  #state: "open" | "ended" | "cancelled" | SvcError = "open";
  #wake: (() => void) | undefined;

  constructor(private readonly options: BodyQueueOptions) {}

  cancel(): void {
    this.#queue.length = 0;
    if (this.#state === "open") this.#state = "cancelled";
    this.options.cancel();
  }

  /** False: the caller is to push no more until `resume` is called. */
  push(bytes: Uint8Array<ArrayBuffer>): boolean {
    const { peer } = this.options;
    peer.moved += bytes.length;
    peer.received += bytes.length;
    if (this.#state === "open" && bytes.length > 0) {
      this.#queue.push(bytes);
      this.#queued += bytes.length;
      this.#change();
    }
    this.#full = this.#queued >= WINDOW;
    return !this.#full;
  }

  end(): void {
    if (this.#state === "open") this.#state = "ended";
    this.#change();
  }

  /** `why`: the reason why the body ends early, for the error. */
  fail(why: string, code: "cancelled" | "body_malformed" = "cancelled", cause?: unknown): void {
    if (this.#state === "open") {
      this.#state = new SvcError(code, `Cannot receive the body: ${why}`, { cause });
    }
    this.#change();
  }

  #change(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): Promise<void> {
    const { peer, open, resume } = this.options;
    if (!this.#opened) {
      this.#opened = true;
      open();
    }
    while (this.#queue.length === 0) {
      if (this.#state instanceof SvcError) return controller.error(this.#state);
      if (this.#state !== "open") return controller.close();
      peer.waiting = true;
      await new Promise<void>((resolve) => this.#wake = resolve);
      peer.waiting = false;
    }
    const bytes = this.#queue.shift()!;
    this.#queued -= bytes.length;
    if (this.#full && this.#queued < WINDOW / 2) {
      this.#full = false;
      resume();
    }
    controller.enqueue(bytes);
  }
}
