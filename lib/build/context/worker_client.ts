/** Client side of the context's Worker, on the event loop. */
import { SvcError } from "../../base/errors.ts";
import { giveWorker, takeWorker } from "../../base/worker_pool.ts";
import { type CopyOptions, copySelections } from "./copy.ts";
import type { FileBatch, FileOptions } from "./copy_files.ts";
import { type Selection, type Tree, walk } from "./tree.ts";
import type { UnpackedContext } from "./unpack_context.ts";
import type { FromContextWorker, ToContextWorker } from "./worker_wire.ts";

/** Most bytes on their way to the Worker; one chunk may exceed that. */
const WINDOW = 4 << 20;

/** Most files that are copied without a Worker: starting one takes longer. */
const FEW_FILES = 200;
const FEW_BYTES = 2 << 20;

/** How long a cancelled Worker may finish its current call, in milliseconds. */
const STOP_WITHIN_MS = 2000;

class ContextWorker implements AsyncDisposable {
  #worker = takeWorker("context");
  #done = false;
  #answer = Promise.withResolvers<FromContextWorker>();
  #settled = false;
  #inFlight = 0;
  #room = Promise.withResolvers<void>();
  #release: () => void;
  /** Settles when the Worker has stopped writing. */
  #ended = Promise.withResolvers<void>();

  constructor(signal: AbortSignal | undefined) {
    // The Worker may fail before anybody awaits the answer, and makes no more room then.
    const settled = () => {
      this.#settled = true;
      this.#room.resolve();
    };
    this.#answer.promise.then(settled, settled);
    const abort = () => this.#answer.reject(signal!.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    this.#release = () => signal?.removeEventListener("abort", abort);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#ended.resolve();
      this.#answer.reject(
        new SvcError("internal", `Cannot write files: the worker failed: ${event.message}`),
      );
    };
    this.#worker.onmessage = ({ data }: MessageEvent<FromContextWorker>) => {
      if (data.type === "taken") {
        this.#inFlight -= data.bytes;
        this.#room.resolve();
        return;
      }
      this.#ended.resolve();
      if (data.type === "error") {
        this.#answer.reject(new SvcError(data.code, data.message, { help: data.help }));
      } else {
        this.#done = data.type !== "stopped";
        this.#answer.resolve(data);
      }
    };
  }

  get answer(): Promise<FromContextWorker> {
    return this.#answer.promise;
  }

  post(message: ToContextWorker, transfer: Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  /** Resolves when there is room for more. Throws where the Worker has failed. */
  async feed(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#inFlight += bytes.length;
    this.post({ type: "chunk", bytes }, [bytes.buffer]);
    while (this.#inFlight > WINDOW && !this.#settled) {
      this.#room = Promise.withResolvers<void>();
      await this.#room.promise;
    }
    if (this.#settled) await this.#answer.promise;
  }

  /** Waits until the Worker has stopped writing: its target folder is removed or unmounted next. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#release();
    if (this.#done) return giveWorker("context", this.#worker);
    this.post({ type: "stop" });
    const timer = setTimeout(this.#ended.resolve, STOP_WITHIN_MS);
    await this.#ended.promise;
    clearTimeout(timer);
    this.#worker.terminate();
  }
}

/** A copy of `chunk`, or `chunk` itself, whose buffer may be transferred whole. */
function ownBuffer(chunk: Uint8Array): Uint8Array<ArrayBuffer> {
  return chunk.byteLength === chunk.buffer.byteLength && chunk.buffer instanceof ArrayBuffer
    ? chunk as Uint8Array<ArrayBuffer>
    // A Buffer is often a view of a shared pool, which would be transferred with it.
    : new Uint8Array(chunk);
}

/** Unpacks a context in a Worker. */
export async function unpackInWorker(
  root: string,
  dockerfile: string,
  chunks: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<UnpackedContext> {
  await using worker = new ContextWorker(signal);
  worker.post({ type: "unpack", root, dockerfile });
  for await (const chunk of chunks) {
    signal?.throwIfAborted();
    await worker.feed(ownBuffer(chunk));
  }
  worker.post({ type: "end" });
  const answer = await worker.answer;
  if (answer.type !== "unpacked") throw new SvcError("internal", "Cannot unpack: wrong answer");
  return answer.result;
}

async function isMuch(tree: Tree, selections: Selection[]): Promise<boolean> {
  let files = 0;
  let bytes = 0;
  for (const { path } of selections) {
    for await (const { stat, kind } of walk(tree, path)) {
      if (kind === "file") bytes += stat.size;
      if (++files > FEW_FILES || bytes > FEW_BYTES) return true;
    }
  }
  return false;
}

/** {@linkcode copySelections}; large copies run in a Worker. */
export async function copyOffLoop(
  tree: Tree,
  selections: Selection[],
  options: CopyOptions,
): Promise<void> {
  if (!await isMuch(tree, selections)) return await copySelections(tree, selections, options);
  const { signal, ...rest } = options;
  signal?.throwIfAborted();
  await using worker = new ContextWorker(signal);
  const { root, ownersKept, names } = tree;
  worker.post({ type: "copy", tree: { root, ownersKept, names }, selections, options: rest });
  await worker.answer;
}

/** Files for which a second Worker is worth starting, and files of one batch. */
const MANY_FILES = 1000;
const BATCH = 256;
const THREADS = Math.min(2, navigator.hardwareConcurrency);

/** Splits the batches into shares of about the same number of files. */
function shares(batches: readonly FileBatch[]): FileBatch[][] {
  const files = batches.reduce((sum, { names }) => sum + names.length, 0);
  const count = files < MANY_FILES ? 1 : THREADS;
  const parts = Array.from({ length: count }, () => ({ files: 0, batches: [] as FileBatch[] }));
  for (const { from, to, names } of batches) {
    for (let at = 0; at < names.length; at += BATCH) {
      const some = names.slice(at, at + BATCH);
      const part = parts.reduce((least, one) => one.files < least.files ? one : least);
      part.files += some.length;
      part.batches.push({ from, to, names: some });
    }
  }
  return parts.map(({ batches }) => batches);
}

/** Copies files in Workers. */
export async function copyBatches(
  batches: readonly FileBatch[],
  { owner, chmod, signal }: FileOptions,
): Promise<void> {
  signal?.throwIfAborted();
  const failed = new AbortController();
  const either = AbortSignal.any([failed.signal, ...signal ? [signal] : []]);
  const ends = await Promise.allSettled(
    shares(batches).map(async (batches) => {
      try {
        await using worker = new ContextWorker(either);
        worker.post({ type: "files", batches, options: { owner, chmod } });
        await worker.answer;
      } catch (error) {
        failed.abort(error);
        throw error;
      }
    }),
  );
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}
