/** Work on files of workloads, in Workers. */
import { asSvcError, SvcError } from "../../../base/errors.ts";
import { waitFor } from "../../../base/wait_for.ts";
import { giveWorker, takeWorker } from "../../../base/worker_pool.ts";
import type { FileChange, FileStat } from "../../caps.ts";
import { within } from "../within.ts";
import type { ChangesOf } from "./changes.ts";
import type { FilesJob, FromFiles } from "./files_worker.ts";

/** Milliseconds until what was asked for has to be found. */
const PATIENCE = 10_000;
/** Milliseconds that a job may go on after its caller has left. */
const END_PATIENCE = 10_000;
/** Jobs at a time: each has a thread, which a file system of a workload may hold up. */
const MOST_JOBS = 16;
let running = 0;

/** The root of a workload: a descriptor (O_PATH), which is disposed of when the job is done. */
export interface OpenRoot extends AsyncDisposable {
  fd: number;
}

const close = async (root: OpenRoot): Promise<void> => await root[Symbol.asyncDispose]();

type Begun = Extract<FromFiles, { type: "begun" }>;
type Done = Extract<FromFiles, { type: "done" }>;
/** Without the root, which is opened for the job. */
type Wanted = FilesJob extends infer Job ? Job extends FilesJob ? Omit<Job, "root"> : never : never;

interface Running {
  begun: Promise<Begun>;
  /** Settles with the end of the job. */
  done: Promise<Done>;
  /** The Worker is used again, or ends: all that it sent has come. */
  release(): void;
  /** The job goes on for as long as it takes to clean up, but not for ever. */
  leave(): void;
}

/** Counts a job in. Throws `unavailable`, and closes the root, where too many are under way. */
function countIn(root: OpenRoot): void {
  if (running < MOST_JOBS) return void running++;
  close(root).catch((error) => {
    console.error(`svc: cannot let go of a workload's files: ${asSvcError(error).message}`);
  });
  throw new SvcError("unavailable", `Cannot copy files: ${running} copies are under way`, {
    help: "try again later; a mount in a workload that does not answer may hold one up",
  });
}

function begin(root: OpenRoot, wanted: Wanted): Running {
  countIn(root);
  const worker = takeWorker("files");
  const begun = Promise.withResolvers<Begun>();
  const done = Promise.withResolvers<Done>();
  begun.promise.catch(() => {/* told by `done` too */});
  done.promise.catch(() => {/* the caller may have left */});
  // A Worker that ends takes with it what is on its way.
  const received = Promise.withResolvers<void>();
  let over = false;
  const end = (settle: () => void, reuse: boolean) => {
    if (over) return;
    over = true;
    if (reuse) received.promise.then(() => giveWorker("files", worker));
    else worker.terminate();
    running--;
    settle();
  };
  const fail = (error: unknown) =>
    end(() => {
      begun.reject(error);
      done.reject(error);
    }, false);
  worker.onmessage = ({ data }: MessageEvent<FromFiles>) => {
    if (data.type === "begun") return begun.resolve(data);
    const told = data.type === "failed"
      ? new SvcError(data.code, data.message, { help: data.help })
      : undefined;
    close(root).then(
      () => data.type === "done" ? end(() => done.resolve(data), true) : fail(told),
      (error) => fail(told ?? error),
    );
  };
  worker.onerror = (event) => {
    event.preventDefault();
    fail(new SvcError("internal", `Cannot copy files: ${event.message}`));
  };
  // The descriptor stays open where a Worker is given up: its thread may still be in a call with it.
  const giveUp = () => fail(notAnswered(wanted.path));
  within(begun.promise.then(() => true, () => true), PATIENCE).then((known) => {
    if (!known) giveUp();
  });
  const transfer = wanted.kind === "unpack" ? [wanted.tar as unknown as Transferable] : [];
  worker.postMessage({ ...wanted, root: root.fd }, transfer);
  return {
    begun: begun.promise,
    done: done.promise,
    release: received.resolve,
    leave: () => {
      const timer = setTimeout(giveUp, END_PATIENCE);
      const stop = () => clearTimeout(timer);
      done.promise.then(stop, stop);
    },
  };
}

const notAnswered = (path: string) =>
  new SvcError("timeout", `Cannot copy ${path}: what is mounted there does not answer`, {
    help: "see to what is mounted in the workload",
  });

/** Undefined where nothing is at the path. */
export async function statFile(root: OpenRoot, path: string): Promise<FileStat | undefined> {
  const job = begin(root, { kind: "stat", path });
  job.release();
  const { stat } = await job.begun;
  await job.done;
  return stat;
}

/** What changed on the trees below `root`, a folder of changes. Throws `too_large`. */
export async function findChanges(root: OpenRoot, of: ChangesOf): Promise<FileChange[]> {
  const job = begin(root, { kind: "changes", path: "/", of });
  job.release();
  return (await job.done).changes!;
}

/** Throws `not_found`. The signal ends the archive with its reason. */
export async function packFile(
  root: OpenRoot,
  path: string,
  signal?: AbortSignal,
): Promise<{ stat: FileStat; tar: ReadableStream<Uint8Array> }> {
  const job = begin(root, { kind: "pack", path });
  const { stat, tar } = await job.begun;
  const reader = tar!.getReader();
  const leave = async () => {
    job.release();
    job.leave();
    reader.cancel().catch(() => {/* it failed already */});
    await job.done.catch(() => {/* nobody waits for its result */});
  };
  const onAbort = Promise.withResolvers<never>();
  const abort = () => onAbort.reject(signal!.reason);
  signal?.addEventListener("abort", abort, { once: true });
  const stop = () => signal?.removeEventListener("abort", abort);
  if (signal?.aborted) abort();
  return {
    stat: stat!,
    tar: new ReadableStream({
      start(controller) {
        onAbort.promise.catch((reason) => {
          controller.error(reason);
          leave();
        });
        // Its error comes by itself: a Worker that has ended tells nothing by its stream.
        job.done.then(stop, (error) => {
          stop();
          controller.error(error);
        });
      },
      async pull(controller) {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        job.release();
        await job.done;
        controller.close();
      },
      async cancel() {
        stop();
        await leave();
      },
    }, { highWaterMark: 0 }),
  };
}

/** Throws `not_found` where there is no such folder, and what the archive threw. */
export async function unpackFiles(
  root: OpenRoot,
  path: string,
  tar: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
): Promise<void> {
  let broken: { error: unknown } | undefined;
  let over = false;
  const reader = tar.getReader();
  const source = new ReadableStream<Uint8Array>({
    async pull(controller) {
      let read: ReadableStreamReadResult<Uint8Array>;
      try {
        signal?.throwIfAborted();
        read = await waitFor(reader.read(), signal);
      } catch (error) {
        broken = { error };
        return controller.error(new Error("the archive broke off"));
      }
      if (over) return;
      if (read.done) controller.close();
      // A copy: the chunk may be a view of memory that is used again.
      else controller.enqueue(new Uint8Array(read.value));
    },
    cancel(reason) {
      over = true;
      reader.cancel(reason).catch(() => {/* it failed already */});
    },
  }, { highWaterMark: 0 });
  const job = begin(root, { kind: "unpack", path, tar: source });
  job.release();
  signal?.addEventListener("abort", job.leave, { once: true });
  try {
    await job.done;
  } catch (error) {
    throw broken ? broken.error : error;
  } finally {
    over = true;
    signal?.removeEventListener("abort", job.leave);
    reader.cancel().catch(() => {/* what broke it has been told */});
  }
}
