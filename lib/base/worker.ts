/**
 * Workers for heavy synchronous work (tar, compression, hashing). One place knows how a Worker's module
 * is found in each form svc runs in: from the sources a `.ts` beside the code, in the bundle or the
 * compiled executable an entry of its own.
 *
 * Each worker module is listed in `WORKERS`; `scripts/compile.ts` makes an entry of each.
 */
import type { Worker as NodeWorker } from "node:worker_threads";

export interface BoundedWorker extends NodeWorker {
  /** Microseconds of processor time of its thread; of Node's API since 24.6, which the types do not have yet. */
  cpuUsage(): Promise<{ user: number; system: number }>;
}

/** Name → module, relative to the repository's root. */
export const WORKERS = {
  context: "lib/build/context/context_worker.ts",
  files: "lib/deploy/host/files/files_worker.ts",
  intake: "backends/store/fs/intake_worker.ts",
  gzip: "lib/build/export/gzip_worker.ts",
  pac: "lib/egress/pac_worker.ts",
  plan: "lib/build/plan/plan_worker.ts",
  tree: "lib/snapshot/tree_worker.ts",
} as const satisfies Record<string, string>;

export type WorkerName = keyof typeof WORKERS;

/** Folder of the built worker modules; set by the bundle's entry. */
let builtRoot: URL | undefined;

export function setBuiltWorkers(root: URL): void {
  builtRoot = root;
}

function urlOf(name: WorkerName): URL {
  return builtRoot
    ? new URL(`./worker-${name}.js`, builtRoot)
    : new URL(`../../${WORKERS[name]}`, import.meta.url);
}

/** Starts a worker. The caller terminates it. */
export function startWorker(name: WorkerName): Worker {
  return new Worker(urlOf(name), { type: "module", name });
}

/**
 * Starts a worker with a memory limit; beyond it the worker ends with an error. The caller terminates the
 * worker.
 */
export async function startBoundedWorker(
  name: WorkerName,
  maxMegabytes: number,
): Promise<BoundedWorker> {
  const { Worker } = await import("node:worker_threads");
  return new Worker(urlOf(name), {
    name,
    resourceLimits: { maxOldGenerationSizeMb: maxMegabytes },
  }) as BoundedWorker;
}
