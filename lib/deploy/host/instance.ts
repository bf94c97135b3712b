/** One container through its life: made, started, watched, restarted, stopped, removed. */
import { removeTree } from "../../base/fs.ts";
import { Mutex } from "../../base/mutex.ts";
import { SIGKILL } from "../../base/signals.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { InstanceStatus, LogFrame } from "../../api/deployment.ts";
import type { InstanceUpdate } from "../../api/workload.ts";
import { amended, joined, restartRule } from "../amended.ts";
import { requirePermitted } from "../privileges.ts";
import type { ContainerExit, ProcessIdentity } from "./engine.ts";
import type { ExecTarget } from "./exec.ts";
import { amend, createContainer, entrust, freeze, type Steered, stopRun, thaw } from "./steer.ts";
import { monitorOf } from "./instance_health.ts";
import type { InstanceHooks, InstanceParts, Revision } from "./instance_parts.ts";
import { Life } from "./life.ts";
import type { ReadLogOptions } from "./log_file.ts";
import { OwnAttachments } from "./own_attachments.ts";
import { type InstanceRecord, madeOf, type MadeRecord, type NetworkAttachment } from "./record.ts";
import { type Standing, standingOf } from "./standing.ts";
import { statusOf } from "./status.ts";
import { within } from "./within.ts";

/** Exit code after SIGKILL. */
const KILLED = 137;
/** Milliseconds that pending work on an instance may delay the server's end. */
const RELEASE_PATIENCE = 10_000;

/** One container, and the only owner of its record. */
export class Instance {
  readonly made: Readonly<MadeRecord>;
  readonly deployment: string;
  readonly hash: string;
  /** True once the container was made. */
  exists = false;
  #parts: InstanceParts;
  #hooks: InstanceHooks;
  #phase: InstanceRecord["phase"];
  readonly #asMade: DeploySpec;
  #amended: InstanceUpdate | undefined;
  #attached: OwnAttachments;
  #life: Life;
  /** The run that is on record, until its outcome is known. */
  #known: Pick<InstanceRecord, "process" | "startedAt" | "paused">;
  #healthChanged: (() => void) | undefined;
  #lock = new Mutex();

  constructor(
    parts: InstanceParts,
    { spec, hash }: Revision,
    record: InstanceRecord,
    hooks: InstanceHooks,
  ) {
    this.made = madeOf(record);
    this.deployment = spec.name;
    this.#asMade = spec;
    this.#amended = record.amended;
    this.hash = hash;
    this.#parts = parts;
    this.#hooks = hooks;
    this.#phase = record.phase === "yielding" ? "ready" : record.phase;
    this.#attached = new OwnAttachments(parts, this.made, record, spec);
    this.#known = { process: record.process, startedAt: record.startedAt, paused: record.paused };
    this.#life = new Life({
      ...restartRule(this.spec),
      restart: () => this.#restart(),
      tell: hooks.tell,
    }, record);
  }

  get id(): string {
    return `${this.deployment}-${this.made.replica}`;
  }

  /** As it is now. */
  get spec(): DeploySpec {
    return amended(this.#asMade, this.#amended);
  }

  get bundle(): string {
    return this.#parts.bundles.path(this.made.key);
  }

  get networks(): readonly NetworkAttachment[] {
    return this.#attached.networks;
  }

  /** The record as it is written to disk. */
  get record(): InstanceRecord {
    return {
      ...this.made,
      phase: this.#phase,
      ...this.#amended && { amended: this.#amended },
      ...this.#attached.record,
      ...(this.#life.state.is === "made" && this.#known),
      ...this.#life.record,
    };
  }

  /** True where it belongs to the deployment: it is neither being created nor being removed. */
  get ready(): boolean {
    return this.#phase === "ready" || this.#phase === "yielding";
  }

  get leaving(): boolean {
    return this.#phase === "leaving";
  }

  /** How suitable the instance is for names and connections; undefined: not at all. */
  get standing(): Standing | undefined {
    return standingOf(this.#phase, this.#life, this.#known.process !== undefined);
  }

  get running(): boolean {
    return this.#life.run !== undefined;
  }

  /** True while it runs or waits for a restart. */
  get active(): boolean {
    return this.running || this.#life.state.is === "waiting";
  }

  /** Read-only. */
  get life(): Pick<Life, "run" | "end" | "state" | "restarted"> {
    return this.#life;
  }

  /** Resolves when the instance ends or its health changes, or at once where it does not run. */
  changed(): Promise<unknown> {
    const health = Promise.withResolvers<void>();
    this.#healthChanged = health.resolve;
    return Promise.race([this.#life.run?.ended.promise, health.promise]);
  }

  /** Its output, oldest first. */
  log(options: ReadLogOptions = {}): AsyncGenerator<LogFrame[]> {
    return this.#parts.engine.logs.read(this.made.key, this.id, options);
  }

  status(): InstanceStatus {
    return { ...statusOf(this.id, this.#life, this.networks[0]?.ip), ...this.#attached.status };
  }

  /** The target of commands in this instance. */
  get target(): ExecTarget {
    const { id, bundle, made: { key, plan }, spec: { groupAdd } } = this;
    const { process, paused } = this.#life.run ?? {};
    return { id, key, bundle, plan, groupAdd, process, paused };
  }

  /**
   * Makes the container, and starts it where `start` says so: the network is set up while the root is prepared and
   * the engine creates the container. On failure the caller removes the instance. Returns warnings.
   */
  create(
    image: string,
    { signal, start }: { signal?: AbortSignal; start: boolean },
  ): Promise<string[]> {
    return this.#lock.run(async () => {
      const { made, spec } = this;
      const { attachments, bundles } = this.#parts;
      const namespace = Promise.withResolvers<void>();
      const ahead = this.networks.length > 0;
      const network = ahead
        ? Promise.resolve(namespace.resolve())
        : this.#attached.connect(namespace.resolve, signal);
      const outside = [
        ahead ? attachments.admit(this.networks, signal) : undefined,
        network.then(() => this.#hooks.attached()),
      ];
      // Waited for at the end: until then a failure must not count as one that nobody handles.
      for (const one of outside) one?.catch(() => {});
      const container = (async () => {
        const netns = attachments.path(made);
        const warnings = await bundles.make({ spec, made, netns, image, signal });
        // A failed network setup never makes its namespace.
        await Promise.race([namespace.promise, network]);
        signal?.throwIfAborted();
        if (start && made.roles) {
          await network;
          await this.#attached.accompany({ signal });
        }
        return { warnings, process: start ? await createContainer(this.#parts, this) : undefined };
      })();
      try {
        await Promise.allSettled([network, container]);
        await network;
        const { process } = await container;
        this.exists = true;
        this.#hooks.tell({ type: "created" });
        await this.#hooks.moved();
        if (process) {
          await this.#attached.enter();
          await this.#begin(process);
        }
      } finally {
        // All steps have to end before anything can be removed.
        await Promise.allSettled(outside);
      }
      await Promise.all(outside);
      return (await container).warnings;
    });
  }

  /** Starts the container again in its own root, after a stop, an end or a reboot. Does nothing where it runs. */
  start(): Promise<void> {
    return this.#lock.run(async () => {
      if (this.running) return;
      this.#life.halt();
      await this.#startAgain();
    });
  }

  async #startAgain(): Promise<void> {
    const { made: { key } } = this;
    const { engine, allowPrivileged } = this.#parts;
    // The permissions may have been narrowed since the container was made.
    requirePermitted(this.spec, allowPrivileged);
    await engine.delete(key);
    await engine.roots.mount(key);
    if (await this.#attached.renew()) await this.#hooks.moved();
    await this.#attached.accompany();
    const process = await createContainer(this.#parts, this);
    await this.#attached.enter();
    await this.#begin(process);
  }

  async #begin(process: ProcessIdentity): Promise<void> {
    await this.#parts.engine.start(this.made.key);
    const startedAt = new Date().toISOString();
    await this.#attend(process, startedAt, () => this.#hooks.tell({ type: "started" }));
    await entrust(this.#steered);
  }

  /** Watches the running process. */
  async #attend(process: ProcessIdentity, startedAt: string, tell = () => {}): Promise<void> {
    const { engine, log } = this.#parts;
    const { key, plan } = this.made;
    const health = plan.health && monitorOf(plan.health, engine, this.#hooks, {
      process,
      target: () => this.target,
      changed: () => this.#healthChanged?.(),
    });
    this.#life.began({ process, startedAt, health });
    tell();
    this.#hooks.changed();
    await engine.exits.watch(key, process, (exit) => {
      this.#ended(exit).catch((error) =>
        log.error("an instance's end was not handled", { instance: this.id, error })
      );
    });
  }

  async #ended(exit: ContainerExit): Promise<void> {
    this.#life.ended(exit);
    if (this.#life.state.is === "ended") {
      await Promise.all([entrust(this.#steered), this.#attached.rest()]);
    }
    this.#hooks.changed();
    this.#parts.log.info("instance ended", { instance: this.id, code: exit.code });
    await this.#hooks.save();
  }

  #restart(): Promise<void> {
    return this.#lock.run(async () => {
      if (this.#life.state.is !== "waiting") return;
      try {
        await this.#startAgain();
      } catch (error) {
        this.#parts.log.warn("restart failed", { instance: this.id, error });
        throw error;
      }
      await this.#hooks.save();
    });
  }

  /** The instance belongs to its deployment from now on. */
  join(): void {
    this.#phase = "ready";
  }

  /** A replacement takes over new connections. `whileStopped`: only until the replacement is up. */
  leave(options: { whileStopped?: boolean } = {}): void {
    this.#phase = options.whileStopped ? "yielding" : "leaving";
  }

  /** From now on the restart policy applies, also to an end that has just happened. */
  supervise(): void {
    this.#life.keep();
    this.#lock.run(() => entrust(this.#steered));
  }

  /** Freezes all its processes, or lets them go on. Idempotent. Throws `conflict` where it does not run. */
  async freeze(frozen: boolean): Promise<void> {
    await this.#lock.run(() => freeze(this.#steered, frozen));
    this.#hooks.changed();
  }

  /** Changes it as it is, for good. Throws `conflict` where its bounds are refused; then nothing has changed. */
  async update(update: InstanceUpdate): Promise<void> {
    await this.#lock.run(async () => {
      await amend(this.#steered, amended(this.spec, update), this.#parts.bundles);
      this.#amended = joined(this.#amended, update);
    });
    await this.#hooks.save();
  }

  get #steered(): Steered {
    const { id, spec, made: { key } } = this;
    const { engine, log, binds, allowPrivileged } = this.#parts;
    const permitted = async () => {
      requirePermitted(spec, allowPrivileged);
      await binds.check(spec);
    };
    return { id, key, spec, permitted, engine, log, life: this.#life, save: this.#hooks.save };
  }

  /** Sends the main process a signal. Also a paused instance ends by SIGKILL. */
  async signal(number: number): Promise<void> {
    await this.#parts.engine.signal(this.made.key, number);
    if (number === SIGKILL) await this.#lock.run(() => thaw(this.#steered));
  }

  /** Stops the container on purpose: the stop signal, then SIGKILL after the grace period. Idempotent. */
  async stop(): Promise<void> {
    this.#life.halt();
    await this.#lock.run(async () => {
      // Again: a restart that was under way may have started a new run.
      this.#life.halt();
      await entrust(this.#steered);
      await stopRun(this.#steered, this.made.plan);
      await this.#attached.rest();
    });
  }

  /** Gives a stopped instance's addresses to its successor; its next start attaches it again. */
  vacate(): Promise<void> {
    return this.#lock.run(() => this.#attached.disconnect());
  }

  /** Stops the container as far as possible, then removes it, which kills the remaining processes. */
  async end(): Promise<void> {
    await this.stop().catch((error) =>
      this.#parts.log.warn("an instance did not stop", { instance: this.id, error })
    );
    await this.remove();
  }

  /** Removes it completely, running or half made. Idempotent; the first error is thrown after all steps. */
  async remove(): Promise<void> {
    this.#life.halt();
    await this.#lock.run(async () => {
      this.#life.halt();
      const { key } = this.made;
      const { engine } = this.#parts;
      const errors: unknown[] = [];
      const step = (work: () => Promise<unknown>) => work().catch((error) => errors.push(error));
      await thaw(this.#steered);
      await step(() => engine.delete(key));
      await step(() => this.#parts.binds.remove(key));
      if (this.running) this.#life.ended({ code: KILLED, at: new Date() });
      const last = [() => this.#attached.remove(), () => engine.roots.remove(key)];
      await Promise.all(last.map(step));
      if (errors.length > 0) throw errors[0];
      await Promise.all([removeTree(this.bundle), engine.logs.remove(key)]);
    });
  }

  /** After the server's restart: takes a running container over, or records its end. True where it runs. */
  adopt(): Promise<boolean> {
    this.exists = true;
    return this.#lock.run(async () => {
      const { process, startedAt, paused } = this.#known;
      const state = await this.#parts.engine.state(this.made.key, process);
      if (state?.is === "running") {
        await this.#attached.enterLate();
        await this.#attend(state.process, startedAt ?? new Date().toISOString());
        if (paused) this.#life.froze(true);
        return true;
      }
      // Else it was made, and has never run.
      if (this.#life.end || process || state) {
        this.#life.foundEnded(state?.is === "ended" ? state.exit : undefined, startedAt);
      }
      return false;
    });
  }

  /** Stops timers and probes; the container keeps running. Pending work on it is finished first. */
  async release(): Promise<void> {
    const letGo = () => {
      this.#life.halt();
      this.#attached.release();
      this.#parts.engine.exits.unwatch(this.made.key);
    };
    letGo();
    await within(this.#lock.run(() => Promise.resolve(letGo())), RELEASE_PATIENCE);
  }
}
