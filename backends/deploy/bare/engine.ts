/** Containers by an OCI runtime's command line, with one conmon each: no daemon. */
import { join } from "node:path";
import { type Lazy, lazy } from "../../../lib/base/lazy.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import { Semaphore } from "../../../lib/base/mutex.ts";
import type { TerminalSize } from "../../../lib/base/terminal.ts";
import { ensureDir } from "../../../lib/base/fs.ts";
import type {
  ContainerEngine,
  ContainerExit,
  ContainerInput,
  ContainerRoots,
  ContainerState,
  ExecOptions,
  NewContainer,
  ProcessIdentity,
} from "../../../lib/deploy/host/engine.ts";
import type { ExitWatch } from "../../../lib/deploy/host/exit_watch.ts";
import { rotateLog } from "../../../lib/deploy/host/log_file.ts";
import { LOG_LIMIT, LogFiles } from "../../../lib/deploy/host/log_files.ts";
import type { HostPaths } from "../../../lib/deploy/host/paths.ts";
import type { Bounds, ProcessSpec } from "../../../lib/runtime/spec.ts";
import { startLimit } from "../../../lib/deploy/host/start_limit.ts";
import type { BareConfig } from "./config.ts";
import { createContainer, monitorEnded, reopenLog, resizeTerminal } from "./conmon.ts";
import { execIn } from "../../../lib/deploy/host/runtime_exec.ts";
import { connectPackets } from "../../../lib/sys/write_end.ts";
import { ExitFiles } from "./exits.ts";
import { Inputs } from "../../../lib/deploy/host/input.ts";
import type { Tools } from "./preflight.ts";
import { exitCommand } from "./shim.ts";
import { runtimeUsage, statsSourceOf } from "./usage.ts";
import { identify, isAlive } from "../../../lib/deploy/host/process.ts";

/** Containers that the runtime makes at the same time. Making one runs nothing of its image. */
const MADE_AT_ONCE = 16;

export interface BareEngineOptions {
  paths: Pick<HostPaths, "instances" | "logs" | "exits" | "shim">;
  config: Pick<BareConfig, "runtime" | "systemdCgroup" | "statsSource" | "startMs" | "shim">;
  roots: ContainerRoots;
  /** Throws `prerequisite_missing`. */
  findTools: () => Promise<Tools>;
}

export class BareEngine implements ContainerEngine {
  readonly roots: ContainerRoots;
  readonly exits: ExitWatch;
  readonly logs: LogFiles;
  #ended: ExitFiles;
  #inputs = new Inputs(
    (key) => this.#bundle(key),
    // The monitor's socket.
    (bundle) => connectPackets(bundle, "attach"),
  );
  readonly usage?: ContainerEngine["usage"];
  #options: BareEngineOptions;
  /** Searched once; a failed search is repeated. */
  #tools: Lazy<Tools>;
  #held = new DisposableStack();
  #making = new Semaphore(MADE_AT_ONCE);

  constructor(options: BareEngineOptions) {
    this.#options = options;
    this.#tools = lazy(options.findTools);
    this.roots = options.roots;
    const { paths: { exits, instances }, config: { runtime, statsSource } } = options;
    if ((statsSource ?? statsSourceOf(runtime)) === "runtime") {
      this.usage = async (key) => await runtimeUsage((await this.#tools.get()).runtime, key);
    }
    this.logs = new LogFiles(options.paths.logs);
    this.#ended = new ExitFiles({ exits, instances });
    this.exits = this.#ended.watch((key) =>
      rotateLog(this.logs.path(key), LOG_LIMIT, () => reopenLog(this.#bundle(key)))
    );
  }

  #bundle(key: string): string {
    return join(this.#options.paths.instances, key);
  }

  async ready(): Promise<void> {
    await this.#tools.get();
  }

  cgroupPath(key: string): string {
    return this.#options.config.systemdCgroup ? `system.slice:svc:${key}` : `/svc/${key}`;
  }

  async create({ key, bundle, tty, stdinOpen }: NewContainer): Promise<ProcessIdentity> {
    const { paths: { exits, logs, shim }, config } = this.#options;
    const { systemdCgroup, startMs } = config;
    await Promise.all([exits, logs].map((path) => ensureDir(path, 0o700)));
    const log = this.logs.path(key);
    const atEnd = config.shim && exitCommand(shim, { bundle, command: config.shim, key });
    const monitor = { key, bundle, log, exits, systemdCgroup, startMs, tty, stdinOpen, atEnd };
    const tools = await this.#tools.get();
    // What waits here does not use up the time that it has to begin.
    const pid = await this.#making.run(() => createContainer(tools, monitor));
    const process = await identify(pid);
    if (process) return process;
    throw new SvcError("deploy_failed", `Cannot start container ${key}: it ended before its start`);
  }

  /** Has a time limit: the runtime first reads the container's passwd and group, which may block for ever. */
  async start(key: string): Promise<void> {
    const { runtime } = await this.#tools.get();
    using limit = startLimit(`container ${key}`, this.#options.config.startMs);
    try {
      await runtime.start(key, limit.signal);
    } catch (error) {
      if (limit.signal.aborted) await runtime.delete(key, { force: true });
      throw error;
    }
  }

  async signal(key: string, signal: number, options?: { all?: boolean }): Promise<void> {
    await (await this.#tools.get()).runtime.kill(key, signal, options);
  }

  input(key: string, options: { tty: boolean }): Promise<ContainerInput> {
    return this.#inputs.open(key, options);
  }

  async resize(key: string, size: TerminalSize): Promise<void> {
    await resizeTerminal(this.#bundle(key), size);
  }

  async freeze(key: string, frozen: boolean): Promise<void> {
    await (await this.#tools.get()).runtime.freeze(key, frozen);
  }

  async update(key: string, bounds: Bounds): Promise<void> {
    await (await this.#tools.get()).runtime.update(key, bounds);
  }

  async delete(key: string): Promise<void> {
    this.exits.unwatch(key);
    await (await this.#tools.get()).runtime.delete(key, { force: true });
    await this.#inputs.end(key);
    await monitorEnded(this.#bundle(key), key, join(this.#options.paths.exits, key));
    await this.#ended.forget(key);
  }

  async state(key: string, known?: ProcessIdentity): Promise<ContainerState | undefined> {
    if (known && await isAlive(known)) return { is: "running", process: known };
    // The server may have ended after the start and before it recorded the process.
    const state = await (await this.#tools.get()).runtime.state(key);
    const process = state?.status === "running" ? await identify(state.pid) : undefined;
    if (process) return { is: "running", process };
    const exit: ContainerExit | undefined = await this.#ended.read(key);
    if (exit || known || state?.status === "stopped") return { is: "ended", exit };
    return state && { is: "created" };
  }

  async exec(key: string, process: ProcessSpec, options: ExecOptions) {
    const { runtime } = await this.#tools.get();
    const { startMs } = this.#options.config;
    const place = { runtime, key, bundle: this.#bundle(key), startMs };
    return await execIn(place, process, options);
  }

  /** Disposed of when the engine is closed. */
  holds(held: DisposableStack): void {
    this.#held.use(held);
  }

  close(): void {
    this.exits.stop();
    this.#held.dispose();
  }
}
