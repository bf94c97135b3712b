/** The build workers, by the name that SVC_BUILD_WORKER gives. */
import { createHash } from "node:crypto";
import { SvcError } from "../../lib/base/errors.ts";
import { ensureDir } from "../../lib/base/fs.ts";
import type { Logger } from "../../lib/base/log.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import type { BuildWorker } from "../../lib/build/worker.ts";
import { proven } from "../../lib/runtime/proof.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";

export interface WorkerSettings {
  /** Folder of the build engine: `<data>/build`. */
  root: string;
  /** The OCI runtime's binary: a name on PATH or a path. */
  binary: string;
  /** Where the runtime keeps its state; of this engine alone, on a file system that a reboot empties. */
  state: string;
  /** Folder that a reboot empties, of all servers of this user. */
  runDir: string;
  containerd: {
    /** Path of the socket. */
    address: string;
    namespace: string;
    snapshotter: string;
  };
  log: Logger;
  signal?: AbortSignal;
}

export interface WorkerBackend {
  help: string;
  /** It does what only the host's root may do. */
  needsRoot?: boolean;
  load: () => Promise<(settings: WorkerSettings) => Promise<BuildWorker>>;
}

export const WORKERS = {
  runc: {
    help: "in this process, each step in an OCI runtime on this host",
    load: async () => {
      const { createRuncExecutor } = await import("./runc.ts");
      return async ({ root, binary, state, runDir, signal }: WorkerSettings) => {
        const runtime = await createRuntime({ binary, root: state, signal });
        await ensureDir(root, 0o700);
        await proven(runtime, { folder: root, runDir });
        return {
          executor: createRuncExecutor({
            runtime,
            // A step's environment may hold secrets: it is not written to the data directory.
            bundles: `${state}.bundles`,
          }),
          [Symbol.asyncDispose]: async () => {},
        };
      };
    },
  },
  containerd: {
    help: "steps, snapshots and content by the host's containerd",
    needsRoot: true,
    load: async () => {
      const [
        { createContainerdExecutor },
        { openContent },
        { ContainerdClient },
        { openContainerdSnapshots },
      ] = await Promise.all([
        import("./containerd.ts"),
        import("./containerd/content.ts"),
        import("../../lib/containerd/client.ts"),
        import("../../lib/containerd/snapshots.ts"),
      ]);
      return async ({ root, state, containerd, log }: WorkerSettings) => {
        const owner = createHash("sha256").update(root).digest("hex").slice(0, 12);
        await using cleanup = new AsyncDisposableStack();
        const client = cleanup.use(new ContainerdClient(containerd));
        const snapshotter = cleanup.use(
          await openContainerdSnapshots({
            client,
            snapshotter: containerd.snapshotter,
            root: `${root}/snapshots/containerd`,
            owner,
            log,
          }),
        );
        const content = cleanup.use(await openContent({ client, owner, log }));
        const opened = cleanup.move();
        return {
          ...content.parts,
          executor: createContainerdExecutor({ client, owner, pipes: `${state}.bundles` }),
          snapshotter,
          [Symbol.asyncDispose]: () => opened.disposeAsync(),
        };
      };
    },
  },
} as const satisfies Record<string, WorkerBackend>;

/** Throws `config_invalid` for an unknown name. */
export function selectWorker(name: string): WorkerBackend {
  const entry = Object.entries<WorkerBackend>(WORKERS).find(([known]) => known === name)?.[1];
  if (!entry) {
    throw new SvcError(
      "config_invalid",
      `Cannot use build worker ${name}: there is none of that name${
        suggestion(name, Object.keys(WORKERS))
      }`,
    );
  }
  return entry;
}

/**
 * Throws `config_invalid` for an unknown name, `prerequisite_missing` for what the worker lacks: a runtime,
 * or containerd.
 */
export async function openWorker(name: string, settings: WorkerSettings): Promise<BuildWorker> {
  return await (await selectWorker(name).load())(settings);
}
