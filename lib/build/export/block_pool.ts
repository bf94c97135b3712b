/** Workers that pack blocks: as many as there are processors, for all builds together. */
import { SvcError } from "../../base/errors.ts";
import { giveWorker, takeWorker } from "../../base/worker_pool.ts";
import type { FromPacker, PackedBlock, Packing, ToPacker } from "./packer_wire.ts";

const MOST_WORKERS = 8;
const WORKERS = Math.min(MOST_WORKERS, navigator.hardwareConcurrency);
/** Blocks that a Worker has at once: its next block already waits in the Worker. */
const EACH = 2;

interface Job {
  message: ToPacker;
  signal: AbortSignal | undefined;
  resolve(packed: PackedBlock): void;
  reject(error: unknown): void;
}

const waiting: Job[] = [];
const lanes = new Set<Lane>();
let jobs = 0;

class Lane {
  readonly #worker = takeWorker("gzip");
  #jobs = new Map<number, Job>();

  constructor() {
    lanes.add(this);
    this.#worker.onmessage = ({ data }: MessageEvent<FromPacker>) => {
      const { resolve, reject } = this.#jobs.get(data.job)!;
      this.#jobs.delete(data.job);
      if ("packed" in data) resolve(data.packed);
      else reject(failed(data.error));
      hand();
      if (this.#jobs.size > 0) return;
      lanes.delete(this);
      giveWorker("gzip", this.#worker);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      lanes.delete(this);
      this.#worker.terminate();
      for (const { reject } of this.#jobs.values()) reject(failed(event.message));
      hand();
    };
  }

  get load(): number {
    return this.#jobs.size;
  }

  take(job: Job): void {
    this.#jobs.set(job.message.job, job);
    this.#worker.postMessage(job.message, [job.message.bytes.buffer]);
  }
}

const failed = (why: string) => new SvcError("internal", `Cannot pack layer: ${why}`);

/** Gives waiting jobs to the Worker with the fewest, and starts a new Worker before one gets a second job. */
function hand(): void {
  for (let job = waiting[0]; job; job = waiting[0]) {
    let lane = [...lanes].toSorted((a, b) => a.load - b.load).at(0);
    if ((!lane || lane.load > 0) && lanes.size < WORKERS) lane = new Lane();
    if (!lane || lane.load >= EACH) return;
    waiting.shift();
    if (job.signal?.aborted) job.reject(job.signal.reason);
    else lane.take(job);
  }
}

/**
 * Packs `bytes` in a Worker; the buffer is transferred. An aborted job is not begun; a begun job runs to its
 * end.
 */
export function packElsewhere(
  bytes: Uint8Array<ArrayBuffer>,
  packing: Packing,
  signal?: AbortSignal,
): Promise<PackedBlock> {
  return new Promise((resolve, reject) => {
    waiting.push({ message: { job: ++jobs, bytes, packing }, signal, resolve, reject });
    hand();
  });
}
