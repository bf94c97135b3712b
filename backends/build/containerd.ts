/**
 * {@linkcode Executor} over the host's containerd: one container and task per step, run by containerd's
 * shim and runc. The root is mounted by the engine, so server and containerd share a mount namespace.
 * While a step runs, containerd's own database holds its specification, environment included.
 */
import { SvcError } from "../../lib/base/errors.ts";
import { ensureDir, removeTree } from "../../lib/base/fs.ts";
import type { Executor, Step } from "../../lib/build/executor.ts";
import { Containers, Tasks } from "../../lib/containerd/api.ts";
import type { ContainerdClient } from "../../lib/containerd/client.ts";
import { ownedBy, ownerLabels } from "../../lib/containerd/labels.ts";
import { hostFacts } from "../../lib/runtime/host_facts.ts";
import { mknod, S_IFIFO } from "../../lib/sys/files.ts";
import { specText, startExitCode } from "./shared/step_spec.ts";

export interface ContainerdExecutorOptions {
  client: ContainerdClient;
  /** Marks this server's containers: `recover` removes all with the mark. `[a-z0-9]`. */
  owner: string;
  /** Folder of the steps' pipes, for this executor alone; made if missing. */
  pipes: string;
}

const SHIM = "io.containerd.runc.v2";
const SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec";
const SIGKILL = 9;
/** Milliseconds that a cancelled step may take to end. */
const KILL_WITHIN_MS = 10_000;
const KILL_EVERY_MS = 50;

type OnOutput = (stream: "stdout" | "stderr", chunk: Uint8Array) => void;

/** True where the error has one of the codes. */
const isCode = (error: unknown, ...codes: string[]) =>
  error instanceof SvcError && codes.includes(error.code);

/**
 * One output of a step: a named pipe that the shim writes to. A separate program reads it, because opening and
 * reading a pipe blocks a thread, and there are few threads.
 */
class Output {
  readonly path: string;
  readonly done: Promise<void>;
  readonly #child: Deno.ChildProcess;
  #ended = false;

  constructor(folder: string, name: "stdout" | "stderr", onOutput: OnOutput) {
    this.path = `${folder}/${name}`;
    mknod(this.path, S_IFIFO | 0o600);
    this.#child = new Deno.Command("cat", {
      args: [this.path],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.done = this.#forward(name, onOutput);
    this.done.catch(() => {/* thrown to whoever awaits it */});
  }

  /** Ends the reader of a pipe that will not be opened, or not read to its end. */
  stop(): void {
    if (!this.#ended) this.#child.kill("SIGKILL");
  }

  async #forward(name: "stdout" | "stderr", onOutput: OnOutput): Promise<void> {
    for await (const chunk of this.#child.stdout) onOutput(name, chunk);
    await this.#child.status;
    this.#ended = true;
  }
}

class ContainerdExecutor implements Executor {
  readonly #client: ContainerdClient;
  readonly #owner: string;
  readonly #pipes: string;
  /** Containers that could not be removed because containerd did not answer. */
  readonly #left = new Set<string>();

  constructor({ client, owner, pipes }: ContainerdExecutorOptions) {
    this.#client = client;
    this.#owner = owner;
    this.#pipes = pipes;
  }

  async run(
    step: Step,
    { onOutput, signal }: { onOutput: OnOutput; signal?: AbortSignal },
  ): Promise<{ exitCode: number }> {
    signal?.throwIfAborted();
    const spec = await specText(step, await hostFacts());
    const id = `svc-${this.#owner}-${step.id}`;
    const folder = `${this.#pipes}/${step.id}`;
    await this.#removeLeft();
    await ensureDir(this.#pipes, 0o700);
    await Deno.mkdir(folder, { mode: 0o700 });
    const outputs: Output[] = [];
    try {
      for (const name of ["stdout", "stderr"] as const) {
        outputs.push(new Output(folder, name, onOutput));
      }
      await this.#client.call(Containers.create, {
        container: {
          id,
          labels: ownerLabels(this.#owner),
          runtime: { name: SHIM },
          spec: { typeUrl: SPEC_TYPE, value: new TextEncoder().encode(spec) },
        },
      }, "Cannot make the step's container");
      return await this.#runTask(id, outputs, onOutput, signal);
    } finally {
      // An earlier error is the one to report.
      this.#left.add(id);
      await this.#removeLeft();
      for (const output of outputs) output.stop();
      await Promise.allSettled(outputs.map(({ done }) => done));
      await removeTree(folder);
    }
  }

  async #runTask(
    id: string,
    outputs: Output[],
    onOutput: OnOutput,
    signal: AbortSignal | undefined,
  ): Promise<{ exitCode: number }> {
    const [stdout, stderr] = outputs.map(({ path }) => path);
    signal?.throwIfAborted();
    try {
      await this.#client.call(
        Tasks.create,
        { containerId: id, stdout, stderr },
        "Cannot start the step",
      );
      const exited = this.#client.call(Tasks.wait, { containerId: id }, "Cannot await the step");
      exited.catch(() => {/* thrown below, unless the start was refused */});
      signal?.throwIfAborted();
      await this.#client.call(Tasks.start, { containerId: id }, "Cannot start the step");
      const { exitStatus } = await this.#untilExit(id, exited, signal);
      // The shim has passed on all output when it releases the task.
      await this.#deleteTask(id);
      await Promise.all(outputs.map(({ done }) => done));
      return { exitCode: exitStatus };
    } catch (error) {
      signal?.throwIfAborted();
      const message = error instanceof SvcError ? error.message : "";
      // Another missing program, such as the runtime, is not the command's fault.
      const exitCode = message.includes("container process") ? startExitCode(message) : undefined;
      if (exitCode === undefined) throw error;
      onOutput("stderr", new TextEncoder().encode(`${message}\n`));
      return { exitCode };
    }
  }

  async #untilExit(
    id: string,
    exited: Promise<{ exitStatus: number }>,
    signal: AbortSignal | undefined,
  ): Promise<{ exitStatus: number }> {
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const abort = () => reject(signal!.reason);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    try {
      return await Promise.race([exited, aborted]);
    } catch (error) {
      if (signal?.aborted) await this.#killed(id, exited);
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Kills every process of a step and waits until it is gone. */
  async #killed(id: string, exited: Promise<unknown>): Promise<void> {
    let gone = false;
    const end = exited.then(() => gone = true, () => gone = true);
    const until = performance.now() + KILL_WITHIN_MS;
    while (!gone && performance.now() < until) {
      await this.#kill(id);
      await Promise.race([end, new Promise((next) => setTimeout(next, KILL_EVERY_MS))]);
    }
  }

  /** A process that has ended, or never started, needs no signal. */
  async #kill(id: string): Promise<void> {
    const input = { containerId: id, signal: SIGKILL, all: true };
    await this.#client.call(Tasks.kill, input, "Cannot end the step").catch((error) => {
      if (!isCode(error, "not_found", "conflict", "internal")) throw error;
    });
  }

  async #deleteTask(id: string): Promise<void> {
    await this.#client.call(Tasks.delete, { containerId: id }, "Cannot remove the step's task")
      .catch((error) => {
        if (!isCode(error, "not_found")) throw error;
      });
  }

  /** Removes this executor's leftover containers; where that fails, the next step tries again. */
  async #removeLeft(): Promise<void> {
    await Promise.all([...this.#left].map(async (id) => {
      try {
        await this.#remove(id);
        this.#left.delete(id);
      } catch (error) {
        if (!(error instanceof SvcError)) throw error;
      }
    }));
  }

  /** Removes a container with its task, whatever state they are in; missing is fine. */
  async #remove(id: string): Promise<void> {
    const until = performance.now() + KILL_WITHIN_MS;
    for (;;) {
      try {
        await this.#deleteTask(id);
        break;
      } catch (error) {
        // The container still runs, or another caller removes it at the same time.
        const again = isCode(error, "conflict", "internal") && performance.now() < until;
        if (!again) throw error;
        await this.#kill(id);
        await new Promise((next) => setTimeout(next, KILL_EVERY_MS));
      }
    }
    await this.#client.call(Containers.delete, { id }, "Cannot remove the step's container")
      .catch((error) => {
        if (!isCode(error, "not_found")) throw error;
      });
  }

  /** This server's containers. */
  async list(): Promise<string[]> {
    const filters = [ownedBy(this.#owner)];
    const { containers } = await this.#client.call(
      Containers.list,
      { filters },
      "Cannot list containers",
    );
    return containers.map(({ id }) => id);
  }

  async recover(): Promise<void> {
    for (const id of await this.list()) await this.#remove(id);
    await removeTree(this.#pipes);
  }
}

export function createContainerdExecutor(options: ContainerdExecutorOptions): Executor & {
  list(): Promise<string[]>;
} {
  return new ContainerdExecutor(options);
}
