/**
 * Workers for heavy synchronous work (tar, compression, hashing). One place knows how a Worker's module
 * is found in each form svc runs in: from the sources a `.ts` beside the code, in the bundle or the
 * compiled executable an entry of its own.
 *
 * Each worker module is listed in `WORKERS`; `scripts/compile.ts` makes an entry of each.
 */

/** Name → module, relative to the repository's root. */
export const WORKERS = {
  context: "lib/build/context/context_worker.ts",
  intake: "backends/store/fs/intake_worker.ts",
  gzip: "lib/build/export/gzip_worker.ts",
  scan: "backends/store/fs/scan_worker.ts",
  tree: "lib/snapshot/tree_worker.ts",
} as const satisfies Record<string, string>;

export type WorkerName = keyof typeof WORKERS;

/** Set by the bundle's entry: where the workers' built modules are. */
let builtRoot: URL | undefined;

export function setBuiltWorkers(root: URL): void {
  builtRoot = root;
}

/** Starts a worker. The caller terminates it. */
export function startWorker(name: WorkerName): Worker {
  const url = builtRoot
    ? new URL(`./worker-${name}.js`, builtRoot)
    : new URL(`../../${WORKERS[name]}`, import.meta.url);
  return new Worker(url, { type: "module", name });
}
