/** The side of the context's Worker that stays on the event loop. */
import { SvcError } from "../../base/errors.ts";
import { giveWorker, takeWorker } from "../../base/worker_pool.ts";
import { setTimes } from "../../sys/files.ts";
import { type CopyOptions, copySelections, type RestOfFolder } from "./copy.ts";
import type { FileBatch, FileOptions } from "./copy_files.ts";
import { type Selection, type Tree, walk } from "./tree.ts";
import type { UnpackedContext } from "./unpack_context.ts";
import type { FromContextWorker, ToContextWorker } from "./worker_wire.ts";

/** Bytes on their way to the Worker, at most (and one chunk more). */
const WINDOW = 4 << 20;

/** What is copied without a Worker: starting one takes longer. */
const FEW_FILES = 200;
const FEW_BYTES = 2 << 20;

/** How long a cancelled Worker may go on with the call it is in. */
const STOP_WITHIN_MS = 2000;

class ContextWorker implements AsyncDisposable {
  #worker = takeWorker("context");
  #done = false;
  #answer = Promise.withResolvers<FromContextWorker>();
  #inFlight = 0;
  #room = Promise.withResolvers<void>();
  #release: () => void;
  /** Settles when the Worker writes no more. */
  #ended = Promise.withResolvers<void>();

  constructor(signal: AbortSignal | undefined) {
    // It may fail before anybody waits for it.
    this.#answer.promise.catch(() => {});
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

  /** Resolves when there is room for more. */
  async feed(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#inFlight += bytes.length;
    this.post({ type: "chunk", bytes }, [bytes.buffer]);
    while (this.#inFlight > WINDOW) {
      this.#room = Promise.withResolvers<void>();
      // A Worker that fails takes no more: the race throws what it said.
      await Promise.race([this.#room.promise, this.#answer.promise]);
    }
  }

  /** Waits until nothing is written any more: what it wrote to is removed or unmounted next. */
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

/** A buffer that can be given away whole. */
function ownBuffer(chunk: Uint8Array): Uint8Array<ArrayBuffer> {
  return chunk.byteLength === chunk.buffer.byteLength && chunk.buffer instanceof ArrayBuffer
    ? chunk as Uint8Array<ArrayBuffer>
    // A Buffer's own slice is a view: what it belongs to would be given away with it.
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

/** {@linkcode copySelections}, in a Worker where it is more than a little. */
export async function copyOffLoop(
  tree: Tree,
  selections: Selection[],
  options: CopyOptions,
): Promise<RestOfFolder[]> {
  if (!await isMuch(tree, selections)) {
    return await copySelections(tree, selections, { ...options, upper: undefined });
  }
  const { signal, ...rest } = options;
  signal?.throwIfAborted();
  await using worker = new ContextWorker(signal);
  const { root, ownersKept, names } = tree;
  worker.post({ type: "copy", tree: { root, ownersKept, names }, selections, options: rest });
  const answer = await worker.answer;
  if (answer.type !== "copied") throw new SvcError("internal", "Cannot copy: wrong answer");
  return answer.rest;
}

/** Files for which a second Worker is worth its start, and those of one batch. */
const MANY_FILES = 1000;
const BATCH = 256;
const THREADS = Math.min(2, navigator.hardwareConcurrency);

/** Parts of about the same number of files. */
function shares(rest: readonly FileBatch[]): FileBatch[][] {
  const files = rest.reduce((sum, { names }) => sum + names.length, 0);
  const count = files < MANY_FILES ? 1 : THREADS;
  const parts = Array.from({ length: count }, () => ({ files: 0, batches: [] as FileBatch[] }));
  for (const { from, to, names } of rest) {
    for (let at = 0; at < names.length; at += BATCH) {
      const some = names.slice(at, at + BATCH);
      const part = parts.reduce((least, one) => one.files < least.files ? one : least);
      part.files += some.length;
      part.batches.push({ from, to, names: some });
    }
  }
  return parts.map(({ batches }) => batches);
}

/** Copies what {@linkcode copyOffLoop} left, when the root is not mounted any more. */
export async function copyRest(
  rest: readonly RestOfFolder[],
  options: FileOptions,
): Promise<void> {
  if (rest.length === 0) return;
  await copyBatches(rest, options);
  for (const { to, time } of rest) setTimes(to, time.mtime, time.mtimeNs);
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
