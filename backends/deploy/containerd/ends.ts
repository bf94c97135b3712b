/** How containers ended. containerd forgets it with the task, so it is written down first. */
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { exists, readJson, removeTree, writeFileAtomic } from "../../../lib/base/fs.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import { Tasks } from "../../../lib/containerd/api.ts";
import type { ContainerdClient } from "../../../lib/containerd/client.ts";
import { orMissing } from "../../../lib/containerd/writing.ts";
import { decodeMessage } from "../../../lib/wire/grpc/protobuf.ts";
import {
  dateOf,
  STOPPED,
  Subscribe,
  TASK_EXIT,
  TASK_EXIT_EVENT,
  type TaskExit,
  type TaskProcess,
  WorkloadTasks,
} from "../../../lib/containerd/workload_api.ts";
import { kernelText } from "../../../lib/deploy/host/cgroups.ts";
import type { ContainerExit } from "../../../lib/deploy/host/engine.ts";
import type { LogFiles } from "../../../lib/deploy/host/log_files.ts";

/** Milliseconds until containerd is asked again for its events. */
const AGAIN = 1000;
/** Milliseconds that a logger may take to write the rest, and between two looks at it. */
const LOG_PATIENCE = 5000;
const LOG_LOOK = 5;

export interface EndsOptions {
  client: ContainerdClient;
  /** A file per container that has ended. */
  folder: string;
  logs: LogFiles;
}

interface Written {
  code: number;
  at: string;
  oom?: boolean;
}

export class Ends {
  readonly #client: ContainerdClient;
  readonly #folder: string;
  readonly #logs: LogFiles;
  /** Ends that containerd has told, by container. */
  readonly #told = new Map<string, { code: number; at: Date }>();

  constructor({ client, folder, logs }: EndsOptions) {
    this.#client = client;
    this.#folder = folder;
    this.#logs = logs;
  }

  /** A container's process as containerd knows it; undefined: it has none. */
  async process(key: string): Promise<TaskProcess | undefined> {
    const call = this.#client.call(
      WorkloadTasks.get,
      { containerId: key },
      `Cannot look at container ${key}`,
    );
    return (await orMissing(call))?.process;
  }

  /**
   * How the container ended, once all its output is in its log; undefined where it has not, or nothing is known
   * of it. One call at a time for each container.
   */
  async collect(key: string): Promise<ContainerExit | undefined> {
    const path = join(this.#folder, key);
    const written = await readJson<Written>(path);
    if (written) return { ...written, at: new Date(written.at) };
    const process = await this.process(key);
    if (process && process.status !== STOPPED) return undefined;
    const known = process
      ? { code: process.exitStatus, at: dateOf(process.exitedAt) }
      : this.#told.get(key);
    if (!known) return undefined;
    const exit = { ...known, ...(await ranOutOfMemory(key) && { oom: true }) };
    await writeFileAtomic(path, JSON.stringify(exit), { mode: 0o600 });
    // Its removal ends the output.
    await orMissing(this.#client.call(Tasks.delete, { containerId: key }, `Cannot end ${key}`));
    await this.#logged(key);
    return exit;
  }

  /** Call it before another start: the old end would count as the next run's. */
  async forget(key: string): Promise<void> {
    this.#told.delete(key);
    await this.#logged(key);
    await removeTree(join(this.#folder, key));
  }

  /** Waits until the logger has written everything. One that was killed writes no more. */
  async #logged(key: string): Promise<void> {
    const running = `${this.#logs.path(key)}.open`;
    for (const until = performance.now() + LOG_PATIENCE; await exists(running);) {
      // Our own: the logger's file.
      const pid = await Deno.readTextFile(running).catch(() => "");
      const command = pid && await kernelText(`/proc/${pid}/cmdline`);
      if (pid && !command?.includes(key) || performance.now() > until) {
        return await removeTree(running);
      }
      await sleep(LOG_LOOK);
    }
  }

  /** Calls back with each container that ends, until the returned function is called. */
  listen(hint: (key: string) => Promise<unknown>): () => void {
    const closing = new AbortController();
    const { signal } = closing;
    this.#follow(hint, signal).catch(() => {/* closed */});
    return () => closing.abort();
  }

  async #follow(hint: (key: string) => Promise<unknown>, signal: AbortSignal): Promise<void> {
    const filters = [`namespace==${JSON.stringify(this.#client.namespace)},topic=="${TASK_EXIT}"`];
    while (!signal.aborted) {
      try {
        const events = this.#client.stream(Subscribe, { filters }, "Cannot hear of ends", {
          signal,
        });
        for await (const { event } of events) {
          if (!event) continue;
          const exit = decodeMessage<TaskExit>(TASK_EXIT_EVENT, event.value);
          const { containerId: key, id, exitStatus: code, exitedAt } = exit;
          // The end of a command beside it.
          if (id !== key) continue;
          this.#told.set(key, { code, at: dateOf(exitedAt) });
          // Where it fails, the regular look asks again.
          hint(key).catch(() => {}).finally(() => this.#told.delete(key));
        }
      } catch (error) {
        // containerd is away: the regular looks go on.
        if (!(error instanceof SvcError) && !signal.aborted) throw error;
      }
      await sleep(AGAIN, signal);
    }
  }
}

/** True where the kernel killed a process of the container for want of memory. */
async function ranOutOfMemory(key: string): Promise<boolean> {
  const files = [`memory/svc/${key}/memory.oom_control`, `svc/${key}/memory.events`];
  const texts = await Promise.all(files.map((file) => kernelText(`/sys/fs/cgroup/${file}`)));
  return texts.some((text) => /^oom_kill [1-9]/m.test(text ?? ""));
}
