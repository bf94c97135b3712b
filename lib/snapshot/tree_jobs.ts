/** Heavy work on trees, in Workers: apply, diff, count, copy. Small work is done in this thread. */
import { asSvcError, type ErrorCode, SvcError } from "../base/errors.ts";
import { giveWorker, takeWorker } from "../base/worker_pool.ts";
import { type ArchivePart, BlockCutter } from "../oci/tar_blocks.ts";
import type { ApplyTarget } from "./apply_tree.ts";
import { type DiffSource, diffTree } from "./diff_tree.ts";
import { treeSize } from "./finish_tree.ts";
import { isSmallTree } from "./small_tree.ts";
import type { AppliedLayer, ApplyOptions, LayerFile } from "./snapshotter.ts";

export type TreeJob =
  | { kind: "apply"; target: ApplyTarget; file?: LayerFile; maxBytes?: number }
  | { kind: "diff"; source: DiffSource }
  | { kind: "size"; root: string }
  | { kind: "copy"; from: string; to: string }
  | { kind: "times"; from: string; to: string };

export interface JobResults {
  apply: AppliedLayer;
  diff: undefined;
  size: number;
  copy: undefined;
  times: undefined;
}

export type ToWorker =
  | { type: "job"; job: TreeJob }
  | { type: "chunk"; bytes: Uint8Array<ArrayBuffer> }
  | { type: "end" }
  | { type: "credit" };

export type FromWorker =
  | { type: "taken"; bytes: number }
  | { type: "part"; part: ArchivePart }
  | { type: "done"; result: unknown }
  | { type: "error"; code: ErrorCode; message: string; help: string };

/** Most bytes on their way to a Worker; one chunk may exceed that. */
const WINDOW = 4 << 20;
interface Running<K extends TreeJob["kind"]> {
  /** Settles when the job ends. */
  result: Promise<JobResults[K]>;
  send(message: ToWorker, transfer?: Transferable[]): void;
  /** Ends the job in the middle. */
  stop(reason: unknown): void;
}

function begin<K extends TreeJob["kind"]>(
  job: Extract<TreeJob, { kind: K }>,
  attempted: string,
  onMessage: (message: FromWorker) => void,
  signal?: AbortSignal,
): Running<K> {
  signal?.throwIfAborted();
  const worker = takeWorker("tree");
  const { promise, resolve, reject } = Promise.withResolvers<JobResults[K]>();
  promise.catch(() => {/* the caller may await it late */});
  let over = false;
  const finish = (settle: () => void, reuse: boolean) => {
    if (over) return;
    over = true;
    signal?.removeEventListener("abort", abort);
    if (reuse) giveWorker("tree", worker);
    else worker.terminate();
    settle();
  };
  const stop = (reason: unknown) => finish(() => reject(reason), false);
  const abort = () => stop(signal!.reason);
  signal?.addEventListener("abort", abort, { once: true });
  worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    if (data.type === "done") finish(() => resolve(data.result as JobResults[K]), true);
    else if (data.type === "error") {
      // Input for this Worker may still be under way and must not reach a later job: the Worker is not used
      // again.
      finish(() => reject(failed(attempted, data)), false);
    } else onMessage(data);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    stop(new SvcError("internal", `${attempted}: ${event.message}`));
  };
  const send = (message: ToWorker, transfer: Transferable[] = []) => {
    if (!over) worker.postMessage(message, transfer);
  };
  send({ type: "job", job });
  return { result: promise, send, stop };
}

const failed = (
  attempted: string,
  { code, message, help }: Pick<SvcError, "code" | "message" | "help">,
) => new SvcError(code, `${attempted}: ${message}`, { help });

/** Bytes on disk of a tree. */
export async function sizeOfTree(
  root: string,
  attempted: string,
  signal?: AbortSignal,
): Promise<number> {
  signal?.throwIfAborted();
  try {
    if (isSmallTree(root, { contents: false })) return treeSize(root);
  } catch (error) {
    throw failed(attempted, asSvcError(error));
  }
  return await runTreeJob<"size">({ kind: "size", root }, attempted, signal);
}

/** Runs a job that needs no stream. */
export function runTreeJob<K extends "size" | "copy" | "times">(
  job: Extract<TreeJob, { kind: K }>,
  attempted: string,
  signal?: AbortSignal,
): Promise<JobResults[K]> {
  return begin<K>(job, attempted, () => {}, signal).result;
}

/**
 * Unpacks a layer (gzip, zstd or plain) into `target`. After a failure the written files remain: the caller
 * removes the tree. Throws `archive_invalid`, `storage_full`, `too_large`, or what the stream threw.
 */
export async function applyLayer(
  target: ApplyTarget,
  layer: ReadableStream<Uint8Array> | LayerFile,
  { maxBytes, signal }: ApplyOptions = {},
): Promise<AppliedLayer> {
  const attempted = "Cannot unpack layer";
  if (!(layer instanceof ReadableStream)) {
    return await begin<"apply">(
      { kind: "apply", target, file: layer, maxBytes },
      attempted,
      () => {},
      signal,
    ).result;
  }
  let outstanding = 0;
  let wake: (() => void) | undefined;
  const running = begin<"apply">({ kind: "apply", target, maxBytes }, attempted, (message) => {
    if (message.type !== "taken") return;
    outstanding -= message.bytes;
    wake?.();
  }, signal);
  let over = false;
  const reader = layer.getReader();
  const settled = () => {
    over = true;
    wake?.();
    // Ends a read that waits. No race with the result for each chunk: all of them would stay until it is there.
    reader.cancel().catch(() => {/* what broke it has been thrown already */});
  };
  running.result.then(settled, settled);
  try {
    while (!over) {
      const { done, value } = await reader.read();
      if (done) break;
      // A copy, since the chunk may be a view of shared memory. (Buffer's slice() would not copy.)
      const bytes = new Uint8Array(value);
      outstanding += bytes.length;
      running.send({ type: "chunk", bytes }, [bytes.buffer]);
      while (outstanding > WINDOW && !over) {
        await new Promise<void>((resolve) => wake = resolve);
      }
    }
    running.send({ type: "end" });
    return await running.result;
  } catch (error) {
    running.stop(error);
    throw error;
  } finally {
    // Not awaited: a source that hangs must not hold up a caller that has given up.
    reader.cancel().catch(() => {/* what broke it has been thrown already */});
    reader.releaseLock();
  }
}

/** Blocks that a Worker may send before the reader takes them. */
const AHEAD = 4;

/** The whole archive of a small tree; undefined for a larger one. */
function fewBlocks(source: DiffSource): ArchivePart[] | undefined {
  const trees = [source.root, ...source.over ?? []];
  if (!trees.every((root) => isSmallTree(root, { contents: true }))) return undefined;
  const cutter = new BlockCutter();
  const parts: ArchivePart[] = [];
  for (const bytes of diffTree(source)) parts.push(...cutter.push(bytes));
  parts.push(...cutter.finish());
  return parts;
}

/** The layer tar of what a tree changed; the Worker stays at most a few blocks ahead of the reader. */
export async function* diffLayer(
  source: DiffSource,
  options: { signal?: AbortSignal } = {},
): AsyncGenerator<ArchivePart, void, void> {
  const attempted = "Cannot pack layer";
  options.signal?.throwIfAborted();
  let few: ArchivePart[] | undefined;
  try {
    few = fewBlocks(source);
  } catch (error) {
    throw failed(attempted, asSvcError(error));
  }
  if (few) return yield* few;
  const parts: ArchivePart[] = [];
  let wake = Promise.withResolvers<void>();
  const running = begin<"diff">({ kind: "diff", source }, attempted, (message) => {
    if (message.type !== "part") return;
    parts.push(message.part);
    wake.resolve();
  }, options.signal);
  let over = false;
  const end = () => {
    over = true;
    wake.resolve();
  };
  running.result.then(end, end);
  try {
    for (let i = 0; i < AHEAD; i++) running.send({ type: "credit" });
    while (!over || parts.length > 0) {
      const part = parts.shift();
      if (part) {
        yield part;
        running.send({ type: "credit" });
        continue;
      }
      await wake.promise;
      wake = Promise.withResolvers();
    }
    await running.result;
  } finally {
    running.stop(new SvcError("cancelled", "Cannot pack layer: the reader left"));
  }
}
