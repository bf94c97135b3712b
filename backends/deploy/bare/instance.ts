/** One container through its life: made, started, watched, restarted, stopped, removed. */
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { ensureDir, removeTree } from "../../../lib/base/fs.ts";
import { Mutex } from "../../../lib/base/mutex.ts";
import { SIGKILL, signalNumber, SIGTERM } from "../../../lib/base/signals.ts";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { InstanceStatus } from "../../../lib/api/deployment.ts";
import { HealthMonitor } from "../../../lib/deploy/health.ts";
import { requirePermitted } from "../../../lib/deploy/privileges.ts";
import { Supervisor } from "../../../lib/deploy/supervisor.ts";
import { beginContainer } from "./begin.ts";
import { placeBinds } from "./binds.ts";
import { type BundleInput, bundlePath, makeBundle, mountRoot, unmountRoot } from "./bundle.ts";
import { createContainer, monitorEnded } from "./conmon.ts";
import { runProbe } from "./exec.ts";
import type { ContainerExit } from "./exits.ts";
import type { Host } from "./host.ts";
import { admit, connect, disconnect, isConnected, publish } from "./networks.ts";
import { identify, isAlive } from "./process.ts";
import type { InstanceRecord } from "./record.ts";
import { statusOf } from "./status.ts";
import { within } from "./within.ts";

/** Milliseconds that a killed container may take to be gone. */
const KILL_PATIENCE = 10_000;
/** Milliseconds that what is under way with an instance may hold up the server's end. */
const RELEASE_PATIENCE = 10_000;

export interface InstanceHooks {
  /** Puts the record on disk. */
  save: () => Promise<void>;
  /** Addresses changed: the containers' files have to follow. */
  moved: () => Promise<void>;
  /** Names lead to it from now on, or no more: the others' files follow by themselves. */
  named: () => void;
}

export class Instance {
  readonly record: InstanceRecord;
  readonly deployment: string;
  readonly spec: DeploySpec;
  #host: Host;
  #hooks: InstanceHooks;
  #supervisor: Supervisor;
  #health: HealthMonitor | undefined;
  #healthChanged: (() => void) | undefined;
  #lock = new Mutex();
  /** It should run: its end is not of our making. */
  #wanted = false;
  /** Ends are followed by restarts: not while it is being tried out. */
  #supervised = false;
  #exit: PromiseWithResolvers<ContainerExit> | undefined;
  #lastExit: { code: number; ran: number } | undefined;

  constructor(host: Host, spec: DeploySpec, record: InstanceRecord, hooks: InstanceHooks) {
    this.#host = host;
    this.#hooks = hooks;
    this.spec = spec;
    this.deployment = spec.name;
    this.record = record;
    this.#supervisor = new Supervisor({
      policy: spec.restart,
      maxAttempts: spec.restartMaxAttempts,
      restart: () => this.#restart(),
      onGiveUp: () => {
        this.#wanted = false;
      },
    });
  }

  get id(): string {
    return `${this.deployment}-${this.record.replica}`;
  }

  get logPath(): string {
    return join(this.#host.paths.logs, `${this.record.key}.log`);
  }

  get bundle(): string {
    return bundlePath(this.#host, this.record.key);
  }

  get running(): boolean {
    return this.#exit !== undefined;
  }

  /** How well a name may lead to it; undefined: not at all. */
  get readiness(): "ready" | "running" | "trial" | undefined {
    if (!this.running || this.record.phase === "leaving") return undefined;
    if (this.record.phase === "creating") return "trial";
    const health = this.#health?.state ?? "healthy";
    return health === "healthy" ? "ready" : "running";
  }

  /** False once nothing more is to be expected of it. */
  get active(): boolean {
    return this.running || this.#supervisor.due !== undefined;
  }

  get health(): Pick<HealthMonitor, "state" | "lastFailure"> | undefined {
    return this.#health;
  }

  /** Of its last end. */
  get lastCode(): number | undefined {
    return this.#lastExit?.code ?? this.record.exitCode;
  }

  /** Resolves when it ends or its health changes, or at once where it does not run. */
  changed(): Promise<unknown> {
    const health = new Promise<void>((resolve) => {
      this.#healthChanged = resolve;
    });
    return Promise.race([this.#exit?.promise, health]);
  }

  status(): InstanceStatus {
    const { id, record, running } = this;
    return statusOf(id, record, {
      running,
      health: this.#health?.state,
      failed: this.#health?.lastFailure,
      due: this.#supervisor.due,
    });
  }

  /**
   * Makes the container and starts it: the network is set up while the root is prepared and the runtime
   * creates the container. On failure the caller removes it. Returns warnings.
   */
  create(
    input: Omit<BundleInput, "record" | "spec">,
    options: { publish: boolean; signal?: AbortSignal },
  ): Promise<string[]> {
    return this.#lock.run(async () => {
      const { signal } = options;
      const { netns, logs, exits } = this.#host.paths;
      await Promise.all([netns, logs, exits].map((path) => ensureDir(path, 0o700)));
      const namespace = Promise.withResolvers<void>();
      const ahead = this.record.networks.length > 0;
      const network = connect(this.#host, this.record, namespace.resolve, signal);
      const outside = [
        ahead ? admit(this.#host, this.record, signal) : undefined,
        network.then(() => options.publish ? publish(this.#host, this.record) : undefined),
      ];
      const container = (async () => {
        const warnings = await makeBundle(this.#host, {
          ...input,
          spec: this.spec,
          record: this.record,
        });
        // A network that fails never makes its namespace.
        await Promise.race([namespace.promise, network]);
        signal?.throwIfAborted();
        return { warnings, pid: await this.#createContainer() };
      })();
      try {
        await Promise.allSettled([network, container]);
        await network;
        const { pid } = await container;
        await this.#hooks.moved();
        await this.#run(pid);
      } finally {
        // All of it has to be over before any of it can be removed.
        await Promise.allSettled(outside);
      }
      await Promise.all(outside);
      return (await container).warnings;
    });
  }

  /** Starts it again in its own root: after a stop, an end or a reboot. Running: nothing happens. */
  start(): Promise<void> {
    return this.#lock.run(async () => {
      if (this.running) return;
      this.#supervised = false;
      this.#supervisor.cancel();
      await this.#startAgain();
    });
  }

  async #startAgain(): Promise<void> {
    const { key } = this.record;
    // What is permitted may be less than when it was made.
    requirePermitted(this.spec, this.#host.config.allowPrivileged);
    const { runtime } = await this.#host.tools();
    await runtime.delete(key, { force: true });
    await monitorEnded(this.bundle, key);
    await mountRoot(this.#host, key);
    if (!await isConnected(this.#host, this.record)) {
      const published = this.record.published;
      await disconnect(this.#host, this.record);
      await connect(this.#host, this.record, () => {});
      if (published) await publish(this.#host, this.record);
      await this.#hooks.moved();
    }
    await this.#run(await this.#createContainer());
  }

  async #createContainer(): Promise<number> {
    const { bundle, logPath: log, record: { key }, spec: { tty, stdinOpen } } = this;
    await this.#host.exits.forget(key);
    await using _binds = await placeBinds(this.#host, key, this.spec, bundle);
    return await createContainer(this.#host, { key, bundle, log, tty, stdinOpen });
  }

  async #run(pid: number): Promise<void> {
    const { record } = this;
    const { runtime } = await this.#host.tools();
    record.process = await identify(pid);
    if (!record.process) {
      throw new SvcError("deploy_failed", `Cannot start ${this.id}: it ended before its start`);
    }
    await beginContainer(this.#host, runtime, record.key);
    record.startedAt = new Date().toISOString();
    delete record.finishedAt;
    delete record.exitCode;
    delete record.message;
    await this.#attend();
  }

  /** Watches the running process; its end resolves `#exit`. */
  async #attend(): Promise<void> {
    this.#wanted = true;
    this.#lastExit = undefined;
    this.#exit = Promise.withResolvers();
    const { health } = this.record.plan;
    if (health) {
      this.#health = new HealthMonitor({
        plan: health,
        probe: (command, signal) => runProbe(this.#host, this, command, signal),
        onChange: () => {
          this.#healthChanged?.();
          this.#hooks.named();
        },
      });
      this.#health.start();
    }
    this.#hooks.named();
    await this.#host.exits.watch(this.record.key, this.record.process!, (exit) => {
      this.#ended(exit).catch((error) =>
        this.#host.log.error("an instance's end was not handled", { instance: this.id, error })
      );
    });
  }

  async #ended(exit: ContainerExit): Promise<void> {
    const { record } = this;
    const began = Date.parse(record.startedAt ?? "") || exit.at.getTime();
    this.#lastExit = { code: exit.code, ran: Math.max(0, exit.at.getTime() - began) };
    this.#health?.stop();
    this.#health = undefined;
    record.exitCode = exit.code;
    record.finishedAt = exit.at.toISOString();
    delete record.process;
    const oom = await Deno.remove(join(this.bundle, "oom")).then(() => true, () => false);
    if (oom) record.message = "it used more memory than its limit";
    const waiting = this.#exit;
    this.#exit = undefined;
    waiting?.resolve(exit);
    this.#hooks.named();
    this.#host.log.info("instance ended", { instance: this.id, code: exit.code });
    if (this.#wanted && this.#supervised) this.#supervisor.exited(this.#lastExit);
    await this.#hooks.save();
  }

  #restart(): Promise<void> {
    return this.#lock.run(async () => {
      if (!this.#wanted || this.running) return;
      this.record.restarts++;
      try {
        await this.#startAgain();
      } catch (error) {
        this.record.message = (error as Error).message;
        this.#host.log.warn("restart failed", { instance: this.id, error });
        throw error;
      }
      await this.#hooks.save();
    });
  }

  /** From now on ends are followed by restarts as the policy says; one that was just missed too. */
  supervise(): void {
    if (this.#supervised) return;
    this.#supervised = true;
    if (this.#wanted && this.#lastExit && !this.running) this.#supervisor.exited(this.#lastExit);
  }

  /** Ends it on purpose: the stop signal, then after the grace period SIGKILL. Idempotent. */
  async stop(): Promise<void> {
    this.#unwant();
    await this.#lock.run(async () => {
      // A restart that was under way has made it wanted again.
      this.#unwant();
      this.#health?.stop();
      const { key, plan } = this.record;
      const exit = this.#exit?.promise;
      if (!exit) return;
      const { runtime } = await this.#host.tools();
      try {
        // Written down by an older version, it may be one that there is not.
        await runtime.kill(key, signalNumber(plan.stopSignal) ?? SIGTERM);
        if (await within(exit, plan.stopGrace)) return;
      } catch (error) {
        this.#host.log.warn("a stop signal was not sent", { instance: this.id, error });
      }
      await runtime.kill(key, SIGKILL, { all: true });
      if (await within(exit, KILL_PATIENCE)) return;
      throw new SvcError("timeout", `Cannot stop ${this.id}: it does not end after SIGKILL`);
    });
  }

  /** {@linkcode stop}, as far as that works, and {@linkcode remove}, which kills what is left. */
  async end(): Promise<void> {
    await this.stop().catch((error) =>
      this.#host.log.warn("an instance did not stop", { instance: this.id, error })
    );
    await this.remove();
  }

  /** Everything of it goes, running or half made. Idempotent; what fails is thrown after the rest. */
  async remove(): Promise<void> {
    this.#unwant();
    await this.#lock.run(async () => {
      this.#unwant();
      const { key } = this.record;
      this.#health?.stop();
      this.#host.exits.unwatch(key);
      const errors: unknown[] = [];
      const step = (work: () => Promise<unknown>) => work().catch((error) => errors.push(error));
      await step(async () => (await this.#host.tools()).runtime.delete(key, { force: true }));
      this.#exit?.resolve({ code: 137, at: new Date() });
      this.#exit = undefined;
      delete this.record.process;
      await Promise.all([
        step(() => disconnect(this.#host, this.record)),
        step(() => unmountRoot(this.#host, key)),
      ]);
      if (errors.length > 0) throw errors[0];
      await monitorEnded(this.bundle, key);
      await this.#host.exits.forget(key);
      const files = [this.bundle, this.logPath, `${this.logPath}.1`];
      await Promise.all(files.map((path) => removeTree(path)));
    });
  }

  /**
   * After the server's restart: takes a running container over, or notes how it ended meanwhile. True
   * where it runs.
   */
  adopt(): Promise<boolean> {
    return this.#lock.run(async () => {
      const { record } = this;
      if (!await isAlive(record.process)) {
        delete record.process;
        const { runtime } = await this.#host.tools();
        const state = await runtime.state(record.key);
        // Started, and the server ended before it could write that down.
        if (state?.status === "running") record.process = await identify(state.pid);
      }
      if (record.process) {
        await this.#attend();
        return true;
      }
      const exit = await this.#host.exits.read(record.key);
      const ended = exit ?? { code: record.exitCode ?? 255, at: new Date() };
      record.exitCode = ended.code;
      record.finishedAt = ended.at.toISOString();
      this.#wanted = true;
      const began = Date.parse(record.startedAt ?? "") || ended.at.getTime();
      this.#lastExit = { code: ended.code, ran: Math.max(0, ended.at.getTime() - began) };
      return false;
    });
  }

  /** Lets go: timers and probes end, the container goes on. What is under way with it is finished first. */
  async release(): Promise<void> {
    const letGo = () => {
      this.#unwant();
      this.#health?.stop();
      this.#host.exits.unwatch(this.record.key);
    };
    letGo();
    await within(this.#lock.run(() => Promise.resolve(letGo())), RELEASE_PATIENCE);
  }

  /** No restart follows its end. */
  #unwant(): void {
    this.#wanted = false;
    this.#supervisor.cancel();
  }
}
