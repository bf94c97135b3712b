/** {@linkcode Executor} over an OCI runtime: one foreground container per step. */
import { SvcError } from "../../lib/base/errors.ts";
import { ensureDir, ifThere, removeTree } from "../../lib/base/fs.ts";
import type { Executor, Step } from "../../lib/build/executor.ts";
import { hostFacts } from "../../lib/runtime/host_facts.ts";
import type { Runtime } from "../../lib/runtime/runtime.ts";
import { inUserNamespace } from "../../lib/sys/userns.ts";
import { specText, startExitCode } from "./shared/step_spec.ts";

export interface RuncExecutorOptions {
  /** The runtime's root belongs to this executor alone: `recover` removes every container in it. */
  runtime: Runtime;
  /** Folder of the bundles; made if missing. */
  bundles: string;
}

/** Milliseconds that a cancelled step may take to end before the runtime's own process is killed. */
const KILL_WITHIN_MS = 10_000;
const KILL_EVERY_MS = 50;

type OnOutput = (stream: "stdout" | "stderr", chunk: Uint8Array) => void;

/** The runtime's own error, from its log; undefined where it reported none. */
async function runtimeError(log: string): Promise<string | undefined> {
  // Our own: what the runtime logs.
  const text = await ifThere(Deno.readTextFile(log)) ?? "";
  let last: string | undefined;
  for (const line of text.split("\n")) {
    try {
      const entry = JSON.parse(line) as { level?: string; msg?: string };
      if (entry.level === "error" || entry.level === "fatal") last = entry.msg;
    } catch {
      // a line that was cut off says nothing
    }
  }
  return last;
}

async function forward(
  stream: ReadableStream<Uint8Array>,
  name: "stdout" | "stderr",
  onOutput: OnOutput,
): Promise<void> {
  for await (const chunk of stream) onOutput(name, chunk);
}

class RuncExecutor implements Executor {
  #runtime: Runtime;
  #bundles: string;

  constructor(options: RuncExecutorOptions) {
    this.#runtime = options.runtime;
    this.#bundles = options.bundles;
  }

  async run(
    step: Step,
    options: { onOutput: OnOutput; signal?: AbortSignal },
  ): Promise<{ exitCode: number }> {
    const { onOutput, signal } = options;
    signal?.throwIfAborted();
    const bundle = `${this.#bundles}/${step.id}`;
    await this.#makeBundle(bundle);
    try {
      await Deno.writeTextFile(`${bundle}/config.json`, await specText(step, await hostFacts()));
      return await this.#runBundle(step, bundle, onOutput, signal);
    } finally {
      await removeTree(bundle);
    }
  }

  async #makeBundle(bundle: string): Promise<void> {
    try {
      await Deno.mkdir(bundle, { mode: 0o700 });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      await ensureDir(this.#bundles, 0o700);
      await Deno.mkdir(bundle, { mode: 0o700 });
    }
  }

  async #runBundle(
    step: Step,
    bundle: string,
    onOutput: OnOutput,
    signal: AbortSignal | undefined,
  ): Promise<{ exitCode: number }> {
    const log = `${bundle}/log.json`;
    const [command, args] = this.#runtime.command("run", "--bundle", bundle, step.id);
    const child = new Deno.Command(command, {
      args: ["--log", log, "--log-format", "json", ...args],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    let ended = false;
    let killing: Promise<void> | undefined;
    const abort = () => {
      killing ??= this.#kill(step.id, child, () => ended);
    };
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    try {
      const [status] = await Promise.all([
        child.status,
        forward(child.stdout, "stdout", onOutput),
        forward(child.stderr, "stderr", onOutput),
      ]);
      ended = true;
      await killing;
      signal?.throwIfAborted();
      if (status.code === 0) return { exitCode: 0 };
      const message = await runtimeError(log);
      if (message === undefined) return { exitCode: status.code };
      await this.#runtime.delete(step.id, { force: true });
      const exitCode = startExitCode(message);
      if (exitCode !== undefined) return { exitCode };
      throw new SvcError("internal", `Cannot run the step: ${message}`, {
        help: "see the runtime's message; the host may lack what a container needs",
      });
    } finally {
      ended = true;
      signal?.removeEventListener("abort", abort);
      await killing;
    }
  }

  /** Repeats the kill until the runtime's process has ended: the container may not exist yet. */
  async #kill(id: string, child: Deno.ChildProcess, ended: () => boolean): Promise<void> {
    const until = performance.now() + KILL_WITHIN_MS;
    let exited = false;
    const exit = child.status.then(() => {
      exited = true;
    });
    while (!exited && !ended() && performance.now() < until) {
      // A container that is just being made cannot be killed yet; the next round can. Without a cgroup, as in a
      // user namespace, the runtime knows only the first process: the kernel then ends the others in its
      // process namespace.
      await this.#runtime.kill(id, "KILL", { all: !inUserNamespace() }).catch(() => {});
      await Promise.race([exit, new Promise((next) => setTimeout(next, KILL_EVERY_MS))]);
    }
    if (!exited && !ended()) child.kill("SIGKILL");
    await exit;
    await this.#runtime.delete(id, { force: true });
  }

  async recover(): Promise<void> {
    for (const { id } of await this.#runtime.list()) {
      await this.#runtime.delete(id, { force: true });
    }
    await removeTree(this.#bundles);
  }
}

export function createRuncExecutor(options: RuncExecutorOptions): Executor {
  return new RuncExecutor(options);
}
