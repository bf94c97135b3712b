/**
 * Containers by the host's containerd: its shim runs them, its restart monitor starts them again while no server
 * runs. Commands beside a container's process are run by the OCI runtime itself, as they need no daemon: so
 * health checks go on while containerd is restarted.
 */
import { join } from "node:path";
import { type Lazy, lazy } from "../../../lib/base/lazy.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import { ensureDir } from "../../../lib/base/fs.ts";
import { KeyedMutex, Semaphore } from "../../../lib/base/mutex.ts";
import { SIGKILL } from "../../../lib/base/signals.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import type { TerminalSize } from "../../../lib/base/terminal.ts";
import { Containers, Tasks, Version } from "../../../lib/containerd/api.ts";
import type { ContainerdClient } from "../../../lib/containerd/client.ts";
import { isCode, orMissing } from "../../../lib/containerd/writing.ts";
import { ownerLabels } from "../../../lib/containerd/labels.ts";
import { encodeMessage } from "../../../lib/wire/grpc/protobuf.ts";
import {
  CREATED,
  PAUSED,
  PAUSING,
  RUNC_OPTIONS,
  RUNC_OPTIONS_TYPE,
  STOPPED,
  Workloads,
  WorkloadTasks,
} from "../../../lib/containerd/workload_api.ts";
import type {
  ContainerEngine,
  ContainerExit,
  ContainerInput,
  ContainerRoots,
  ContainerState,
  EngineRestart,
  ExecOptions,
  NewContainer,
  ProcessIdentity,
} from "../../../lib/deploy/host/engine.ts";
import { ExitWatch } from "../../../lib/deploy/host/exit_watch.ts";
import { FIFO, Inputs, openInput } from "../../../lib/deploy/host/input.ts";
import { LogFiles } from "../../../lib/deploy/host/log_files.ts";
import type { HostPaths } from "../../../lib/deploy/host/paths.ts";
import { identify, isAlive } from "../../../lib/deploy/host/process.ts";
import { execIn } from "../../../lib/deploy/host/runtime_exec.ts";
import { startLimit } from "../../../lib/deploy/host/start_limit.ts";
import type { Runtime } from "../../../lib/runtime/runtime.ts";
import { type Bounds, type ProcessSpec, withBounds } from "../../../lib/runtime/spec.ts";
import { Ends } from "./ends.ts";
import { containerLabels } from "./labels.ts";
import { LOG_MARKS, type Programs } from "./programs.ts";
import { RestartLabels } from "./restart.ts";

/** Containers that are made at the same time: each has a shim, a logger and a runtime started. */
const MADE_AT_ONCE = 8;
const SHIM = "io.containerd.runc.v2";
const RESOURCES_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources";
const SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec";
/** Milliseconds that a killed container may take to end, and between two looks at it. */
const END_PATIENCE = 10_000;
const END_LOOK = 10;
/** Milliseconds that a removal waits for a containerd that is being restarted, and between two tries. */
const AWAY_PATIENCE = 5000;
const AWAY_LOOK = 200;

/** The programs of the host that the engine needs. */
export interface Tools {
  /** With an absolute path; its state is where the shim keeps it. */
  runtime: Runtime;
  programs: Programs;
}

export interface ContainerdEngineOptions {
  client: ContainerdClient;
  /** Marks this server's containers. */
  owner: string;
  paths: Pick<HostPaths, "instances" | "logs" | "exits" | "runtime">;
  roots: ContainerRoots;
  /** SVC_WORKLOAD_START_TIMEOUT, in milliseconds. */
  startMs: number;
  /** Throws `prerequisite_missing`. */
  findTools: () => Promise<Tools>;
  /** Called at the end. */
  release: () => void;
}

/** The words of the runtime in an error of containerd's. */
function words(error: SvcError): string {
  const text = error.message.slice(error.message.indexOf(": ") + 2);
  return text.replace(/^failed to create shim task: /, "").replace(/: unknown$/, "");
}

export class ContainerdEngine implements ContainerEngine {
  readonly roots: ContainerRoots;
  readonly exits: ExitWatch;
  readonly logs: LogFiles;
  readonly #options: ContainerdEngineOptions;
  readonly #client: ContainerdClient;
  readonly #restarts: RestartLabels;
  readonly #ends: Ends;
  readonly #inputs = new Inputs((key) => this.#bundle(key));
  /** What ends and removes a container takes its turn. */
  readonly #locks = new KeyedMutex();
  readonly #making = new Semaphore(MADE_AT_ONCE);
  /** Processes that wait for their start, by container. */
  readonly #waiting = new Map<string, ProcessIdentity>();
  /** Searched once; a failed search is repeated. */
  #tools: Lazy<Tools>;

  constructor(options: ContainerdEngineOptions) {
    const { client, paths, roots } = this.#options = options;
    this.#client = client;
    this.#tools = lazy(options.findTools);
    this.roots = roots;
    this.logs = new LogFiles(paths.logs, LOG_MARKS);
    this.#restarts = new RestartLabels(client);
    this.#ends = new Ends({ client, folder: paths.exits, logs: this.logs });
    this.exits = new ExitWatch({
      read: (key) => this.#locks.run(key, () => this.#ends.collect(key)),
      listen: (hint) => this.#ends.listen(hint),
    });
  }

  #bundle(key: string): string {
    return join(this.#options.paths.instances, key);
  }

  async ready(): Promise<void> {
    await this.#tools.get();
    await this.#client.call(Version, {}, "Cannot use containerd");
  }

  cgroupPath(key: string): string {
    return `/svc/${key}`;
  }

  create(container: NewContainer): Promise<ProcessIdentity> {
    // What waits here does not use up the time that it has to begin.
    return this.#making.run(() => this.#make(container));
  }

  async #make(container: NewContainer): Promise<ProcessIdentity> {
    const { key, bundle, stdinOpen } = container;
    const { paths, startMs } = this.#options;
    const { programs } = await this.#tools.get();
    await Promise.all([paths.exits, paths.logs].map((path) => ensureDir(path, 0o700)));
    if (stdinOpen) await openInput(bundle);
    using limit = startLimit(`container ${key}`, startMs);
    await this.#record(container, programs.guard);
    try {
      const { pid } = await this.#task(
        container,
        programs.logURI(this.logs.path(key)),
        limit.signal,
      );
      const process = await identify(pid);
      if (process) {
        this.#waiting.set(key, process);
        return process;
      }
    } catch (error) {
      if (!isCode(error, "internal", "not_found", "argument_invalid", "conflict")) throw error;
      throw new SvcError(
        "deploy_failed",
        `Cannot create container ${key}: ${words(error as SvcError)}`,
        { cause: error, help: "see the runtime's message" },
      );
    }
    throw new SvcError("deploy_failed", `Cannot start container ${key}: it ended before its start`);
  }

  /** What containerd keeps of the container. */
  async #record({ key, bundle, image, labels }: NewContainer, guard: string): Promise<void> {
    const options = { binaryName: guard, root: this.#options.paths.runtime };
    // Our own: the bundle's document.
    const spec = await Deno.readFile(join(bundle, "config.json"));
    await this.#client.call(Workloads.create, {
      container: {
        id: key,
        labels: { ...containerLabels(labels), ...ownerLabels(this.#options.owner) },
        image,
        runtime: {
          name: SHIM,
          options: { typeUrl: RUNC_OPTIONS_TYPE, value: encodeMessage(RUNC_OPTIONS, options) },
        },
        spec: { typeUrl: SPEC_TYPE, value: spec },
      },
    }, `Cannot make container ${key}`);
  }

  async #task(
    { key, bundle, tty, stdinOpen }: NewContainer,
    logURI: string,
    signal: AbortSignal,
  ): Promise<{ pid: number }> {
    const task = {
      containerId: key,
      ...(tty && stdinOpen && { stdin: join(bundle, FIFO) }),
      stdout: logURI,
      ...(!tty && { stderr: logURI }),
      terminal: tty,
    };
    const create = () =>
      this.#client.call(Tasks.create, task, `Cannot create container ${key}`, { signal });
    try {
      return await create();
    } catch (error) {
      if (!isCode(error, "conflict")) throw error;
      // The restart monitor was about to start the container as it was before.
      await this.#deleteTask(key);
      return await create();
    }
  }

  /** Has a time limit, as {@linkcode create}. */
  async start(key: string): Promise<void> {
    using limit = startLimit(`container ${key}`, this.#options.startMs);
    const { signal } = limit;
    try {
      await this.#client.call(Tasks.start, { containerId: key }, `Cannot start ${key}`, { signal });
    } catch (error) {
      if (signal.aborted) await this.#giveUp(key);
      if (!isCode(error, "internal", "not_found", "argument_invalid")) throw error;
      throw new SvcError(
        "deploy_failed",
        `Cannot start container ${key}: ${words(error as SvcError)}`,
        { cause: error, help: "see the runtime's message" },
      );
    }
  }

  /** Ends what did not begin. The shim takes no other call of the container's until its runtime has answered. */
  async #giveUp(key: string): Promise<void> {
    const process = this.#waiting.get(key);
    if (process && await isAlive(process)) Deno.kill(process.pid, "SIGKILL");
    await this.#locks.run(key, () => this.#deleteTask(key));
  }

  async supervise(key: string, restart: EngineRestart | undefined): Promise<void> {
    if (!restart) return await this.#restarts.disarm(key);
    const { programs } = await this.#tools.get();
    const logURI = programs.logURI(this.logs.path(key), { monitor: true });
    await this.#restarts.arm(key, restart, logURI);
  }

  async signal(key: string, signal: number, { all }: { all?: boolean } = {}): Promise<void> {
    await this.#unlessGone(
      this.#client.call(Tasks.kill, { containerId: key, signal, all }, `Cannot signal ${key}`),
    );
  }

  input(key: string, options: { tty: boolean }): Promise<ContainerInput> {
    return this.#inputs.open(key, options);
  }

  async resize(key: string, { columns: width, rows: height }: TerminalSize): Promise<void> {
    const input = { containerId: key, width, height };
    await this.#unlessGone(this.#client.call(WorkloadTasks.resize, input, `Cannot resize ${key}`));
  }

  async freeze(key: string, frozen: boolean): Promise<void> {
    const input = { containerId: key };
    const process = await this.#ends.process(key);
    if (!process) return;
    const isFrozen = process.status === PAUSED || process.status === PAUSING;
    if (frozen === isFrozen) return;
    const method = frozen ? WorkloadTasks.pause : WorkloadTasks.resume;
    await this.#client.call(method, input, `Cannot ${frozen ? "pause" : "unpause"} ${key}`);
  }

  async update(key: string, bounds: Bounds): Promise<void> {
    const attempted = `Cannot change the bounds of ${key}`;
    const value = new TextEncoder().encode(JSON.stringify(bounds));
    const resources = { typeUrl: RESOURCES_TYPE, value };
    try {
      await this.#client.call(WorkloadTasks.update, { containerId: key, resources }, attempted);
    } catch (error) {
      if (!isCode(error, "internal", "argument_invalid")) throw error;
      throw new SvcError("conflict", `${attempted}: ${words(error as SvcError)}`, {
        cause: error,
        help: "see the runtime's message",
      });
    }
    // The restart monitor starts it as it is on record.
    const { container } = await this.#client.call(Workloads.get, { id: key }, attempted);
    const document = withBounds(new TextDecoder().decode(container.spec?.value), bounds);
    const spec = { typeUrl: SPEC_TYPE, value: new TextEncoder().encode(document) };
    const change = { container: { id: key, spec }, mask: { paths: ["spec"] } };
    await this.#client.call(Workloads.update, change, attempted);
  }

  async delete(key: string): Promise<void> {
    this.exits.unwatch(key);
    this.#waiting.delete(key);
    for (const until = performance.now() + AWAY_PATIENCE;; await sleep(AWAY_LOOK)) {
      try {
        return await this.#deleteNow(key);
      } catch (error) {
        if (!isCode(error, "prerequisite_missing", "unavailable") || performance.now() > until) {
          throw error;
        }
      }
    }
  }

  async #deleteNow(key: string): Promise<void> {
    await this.#locks.run(key, async () => {
      await this.#deleteTask(key);
      await orMissing(this.#client.call(Containers.delete, { id: key }, `Cannot remove ${key}`));
      await this.#inputs.end(key);
      await this.#ends.forget(key);
    });
  }

  /** Ends and removes what runs of a container. The caller has its turn. */
  async #deleteTask(key: string): Promise<void> {
    const input = { containerId: key };
    for (const until = performance.now() + END_PATIENCE;;) {
      try {
        await this.#client.call(Tasks.delete, input, `Cannot remove the task of ${key}`);
        return;
      } catch (error) {
        if (isCode(error, "not_found")) return;
        if (!isCode(error, "conflict", "internal") || performance.now() > until) throw error;
      }
      const { status } = await this.#ends.process(key) ?? {};
      if (status === PAUSED) {
        await this.#unlessGone(this.#client.call(WorkloadTasks.resume, input, `Cannot end ${key}`));
      }
      await this.signal(key, SIGKILL, { all: true });
      await sleep(END_LOOK);
    }
  }

  /** What has ended, or was never started, needs no signal. */
  async #unlessGone(call: Promise<unknown>): Promise<void> {
    await call.catch((error) => {
      if (!isCode(error, "not_found", "conflict")) {
        if (isCode(error, "internal") && /finished|not running|stopped/.test(error.message)) return;
        throw error;
      }
    });
  }

  async state(key: string, known?: ProcessIdentity): Promise<ContainerState | undefined> {
    if (known && await isAlive(known)) return { is: "running", process: known };
    try {
      return await this.#locks.run(key, () => this.#stateNow(key, known !== undefined));
    } catch (error) {
      // containerd does not run. Nothing of the container runs, as far as is known: it is started again by its
      // policy, as soon as containerd is there.
      if (isCode(error, "prerequisite_missing", "unavailable")) return known && { is: "ended" };
      throw error;
    }
  }

  async #stateNow(key: string, known: boolean): Promise<ContainerState | undefined> {
    const task = await this.#ends.process(key);
    if (task?.status === CREATED) return { is: "created" };
    const ended = task === undefined || task.status === STOPPED;
    // The restart monitor may have started it again while no server ran.
    const process = ended ? undefined : await identify(task.pid);
    if (process) return { is: "running", process };
    const exit: ContainerExit | undefined = await this.#ends.collect(key);
    return exit || known || task ? { is: "ended", exit } : undefined;
  }

  async exec(key: string, process: ProcessSpec, options: ExecOptions) {
    const { runtime } = await this.#tools.get();
    const place = { runtime, key, bundle: this.#bundle(key), startMs: this.#options.startMs };
    return await execIn(place, process, options);
  }

  close(): void {
    this.exits.stop();
    this.#options.release();
  }
}
