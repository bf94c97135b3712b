/** The executors of the build engine, by the name that SVC_BUILD_WORKER gives. */
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import type { Executor } from "../../lib/build/executor.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";

export interface ExecutorSettings {
  /** Folder of the build engine: `<data>/build`. */
  root: string;
  /** The OCI runtime's binary: a name on PATH or a path. */
  binary: string;
  /** Where the runtime keeps its state; of this engine alone, on a file system that a reboot empties. */
  state: string;
  signal?: AbortSignal;
}

export interface ExecutorBackend {
  help: string;
  /** Absent where this build does not have it. */
  load?: () => Promise<(settings: ExecutorSettings) => Promise<Executor>>;
}

export const EXECUTORS = {
  runc: {
    help: "in this process, each step in an OCI runtime on this host",
    load: async () => {
      const { createRuncExecutor } = await import("./runc.ts");
      return async ({ binary, state, signal }: ExecutorSettings) =>
        createRuncExecutor({
          runtime: await createRuntime({ binary, root: state, signal }),
          // A step's environment may hold secrets: it is not written to the data directory.
          bundles: `${state}.bundles`,
        });
    },
  },
  containerd: { help: "steps run by the host's containerd" },
} as const satisfies Record<string, ExecutorBackend>;

export type ExecutorName = keyof typeof EXECUTORS;

/** Throws `config_invalid` for an unknown name, `not_in_build`, or what the executor lacks. */
export async function openExecutor(name: string, settings: ExecutorSettings): Promise<Executor> {
  const entry = Object.entries<ExecutorBackend>(EXECUTORS).find(([known]) => known === name)?.[1];
  if (!entry) {
    throw new SvcError(
      "config_invalid",
      `Cannot use build worker ${name}: there is none of that name${
        suggestion(name, Object.keys(EXECUTORS))
      }`,
    );
  }
  if (!entry.load) {
    throw new SvcError("not_in_build", `Cannot use build worker ${name}: not in this build yet`);
  }
  return await (await entry.load())(settings);
}
