/** The build workers, by the name that SVC_BUILD_WORKER gives. */
import { createHash } from "node:crypto";
import { ensureDir } from "../../lib/base/fs.ts";
import type { Logger } from "../../lib/base/log.ts";
import type { BuildWorker } from "../../lib/build/worker.ts";
import { CONTAINERD } from "../../lib/config/server/containerd.ts";
import { RUNTIME } from "../../lib/config/server/runtime.ts";
import { type OptionTable, optionTable, reading, type Settings } from "../../lib/config/table.ts";
import { proven } from "../../lib/runtime/proof.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";

export interface WorkerParts {
  /** Folder of the build engine: `<data>/build`. */
  root: string;
  /** Where the worker keeps its state, for this engine alone; on a file system that a reboot empties. */
  state: string;
  /** Folder for all servers of this user; a reboot empties it. */
  runDir: string;
  log: Logger;
  signal?: AbortSignal;
}

type OpenWorker = (parts: WorkerParts) => Promise<BuildWorker>;

export interface WorkerBackend {
  help: string;
  /** The worker does what only the host's root may do. */
  needsRoot?: boolean;
  load: (settings: Settings) => Promise<OpenWorker>;
}

export const WORKERS: Record<string, WorkerBackend> = {
  runc: {
    help: "in this process, each step in an OCI runtime on this host",
    load: reading([RUNTIME], async () => {
      const { createRuncExecutor } = await import("./runc.ts");
      return ({ runtime: binary }): OpenWorker => async ({ root, state, runDir, signal }) => {
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
    }),
  },
  containerd: {
    help: "steps, snapshots and content by the host's containerd",
    needsRoot: true,
    load: reading([CONTAINERD], async () => {
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
      return (settings): OpenWorker => async ({ root, state, log }) => {
        const owner = createHash("sha256").update(root).digest("hex").slice(0, 12);
        await using cleanup = new AsyncDisposableStack();
        const client = cleanup.use(
          new ContainerdClient({
            address: settings.containerdAddress,
            namespace: settings.containerdNamespace,
          }),
        );
        const snapshotter = cleanup.use(
          await openContainerdSnapshots({
            client,
            snapshotter: settings.containerdSnapshotter,
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
    }),
  },
};

const CHOICE = optionTable([
  {
    key: "buildWorker",
    kind: "string",
    env: ["SVC_BUILD_WORKER"],
    choices: Object.keys(WORKERS),
    default: "runc",
    defaultText: "runc: in-process build worker",
    section: "Build engine",
    help: "Who runs builds: runc, in this process with SVC_RUNTIME; or containerd, the host's " +
      "(SVC_CONTAINERD_ADDRESS), which runs the steps, keeps snapshots and pulled layers, and gets each " +
      "built image under its name (`ctr -n svc images ls`), unless its output says store=false. Its own " +
      "database holds a step's environment, secrets in it included, while the step runs.",
  },
]);

export const WORKER_TABLES: readonly OptionTable[] = [CHOICE];

export interface SelectedWorker {
  name: string;
  /** See {@linkcode WorkerBackend}. */
  needsRoot: boolean;
  /** Throws `prerequisite_missing` where a runtime or containerd is missing. */
  open: OpenWorker;
}

/** The worker that SVC_BUILD_WORKER names. */
export function selectWorker(settings: Settings): SelectedWorker {
  const { buildWorker: name } = settings.of(CHOICE);
  const { needsRoot = false, load } = WORKERS[name];
  return { name, needsRoot, open: async (parts) => await (await load(settings))(parts) };
}
