/** One deployment in memory: the owner of its record and its instances. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type {
  DeploymentState,
  DeploymentStatus,
  InstanceChange,
  InstanceEvent,
  PublishedPort,
} from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { Mutex } from "../../base/mutex.ts";
import { Instance } from "./instance.ts";
import type { InstanceHooks, InstanceParts, Revision } from "./instance_parts.ts";
import type { DeploymentRecord, DeploymentRecords, InstanceRecord } from "./record.ts";

export interface DeploymentHooks extends Pick<InstanceHooks, "attached" | "moved" | "changed"> {
  /** Called with the events of its instances. */
  tell: (event: InstanceEvent) => void;
}

export class Deployment {
  #record: DeploymentRecord;
  #instances: Instance[];
  /** The state while work on the deployment is under way. */
  transient: DeploymentState | undefined;
  /** Names of networks that are being set up for the deployment: no instance's record names them yet. */
  joining: readonly string[] = [];
  #parts: InstanceParts;
  #records: DeploymentRecords;
  #hooks: DeploymentHooks;
  #saving = new Mutex();
  #removed = false;

  constructor(
    parts: InstanceParts,
    records: DeploymentRecords,
    record: DeploymentRecord,
    hooks: DeploymentHooks,
  ) {
    this.#parts = parts;
    this.#records = records;
    this.#hooks = hooks;
    this.#record = record;
    this.#instances = record.instances.map((one) =>
      this.#instance({ spec: one.spec ?? record.spec, hash: one.hash ?? record.hash }, one)
    );
  }

  #instance(revision: Revision, record: InstanceRecord): Instance {
    const instance: Instance = new Instance(this.#parts, revision, record, {
      ...this.#hooks,
      tell: (change) => this.tell(instance, change),
      save: () => this.save(),
    });
    return instance;
  }

  /** Passes on an event of an instance. */
  tell({ id, made }: Instance, change: InstanceChange): void {
    const time = new Date().toISOString();
    const { name: deployment } = this;
    this.#hooks.tell({ ...change, time, deployment, instance: id, container: made.key });
  }

  /** Read-only; the methods below change it. */
  get record(): Readonly<DeploymentRecord> {
    return this.#record;
  }

  get name(): string {
    return this.#record.name;
  }

  get instances(): readonly Instance[] {
    return this.#instances;
  }

  /** The instances that belong to the deployment now, without those that are being created or removed. */
  get ready(): Instance[] {
    return this.#instances.filter((instance) => instance.ready)
      .sort((a, b) => a.made.replica - b.made.replica);
  }

  /** Has that id ("web-0") or number; absent: the first that runs, else the first. Throws `not_found`. */
  pick(id?: string): Instance {
    const { ready } = this;
    const found = id === undefined
      ? ready.find((instance) => instance.running) ?? ready[0]
      : ready.find((instance) => instance.id === id || String(instance.made.replica) === id);
    if (found) return found;
    throw new SvcError(
      "not_found",
      id === undefined
        ? `Cannot use deployment ${this.name}: it has no instance`
        : `Cannot find instance ${id}: deployment ${this.name} has ${
          ready.map((instance) => instance.id).join(", ") || "none"
        }`,
    );
  }

  /**
   * Its running instances, or the one of that id. Throws `not_found` for an unknown id, and `conflict` where
   * that one does not run.
   */
  runningOnes(id?: string): Instance[] {
    if (id === undefined) return this.ready.filter((instance) => instance.running);
    const picked = this.pick(id);
    if (!picked.running) throw notRunning(picked.id);
    return [picked];
  }

  /** As {@linkcode runningOnes}; throws `conflict` where none runs. */
  requireRunning(id?: string): Instance[] {
    const found = this.runningOnes(id);
    if (found.length === 0) throw notRunning(`deployment ${this.name}`);
    return found;
  }

  /** Adds instances that are about to be created; they do not belong to the deployment yet. */
  add(revision: Revision, records: readonly InstanceRecord[]): Instance[] {
    const added = records.map((record) => this.#instance(revision, record));
    this.#instances.push(...added);
    return added;
  }

  /** Forgets instances that were removed. */
  drop(gone: readonly Instance[]): void {
    this.#instances = this.#instances.filter((instance) => !gone.includes(instance));
    for (const one of gone) if (one.exists) this.tell(one, { type: "removed" });
  }

  /** The host ports that the deployment holds now: a stopped deployment holds none. */
  get published(): PublishedPort[] {
    const holding = this.#record.stopped
      ? this.#instances.filter((instance) => !instance.ready)
      : this.#instances;
    return distinct(holding);
  }

  /** The host ports that its instances are made for. */
  get ports(): PublishedPort[] {
    return distinct(this.ready);
  }

  /** Records the revision of a first apply before its instances are created. */
  aim(revision: Revision, image: string): void {
    Object.assign(this.#record, { ...revision, image });
  }

  /** Records that all instances are made from this revision. */
  reach(
    made: Revision & Pick<DeploymentRecord, "image" | "imageDigest" | "warnings">,
  ): void {
    Object.assign(this.#record, made, { stopped: false, updatedAt: new Date().toISOString() });
    delete this.#record.error;
    delete this.#record.pending;
  }

  /** Records the spec's latest origin, which does not affect the instances. */
  comesFrom(origin: DeploySpec["origin"]): void {
    this.#record.spec.origin = origin;
  }

  /** Records whether the deployment should run. */
  want(running: boolean): void {
    this.#record.stopped = !running;
    if (running) delete this.#record.error;
  }

  /** Records what is about to be done to it; absent: it is done. */
  begin(pending?: "start" | "restart"): void {
    if (pending) this.#record.pending = pending;
    else delete this.#record.pending;
  }

  failed(error: unknown): void {
    this.#record.error = (error as Error).message;
  }

  /** Records that the deployment is to be removed, now or at the next start. */
  condemn(): void {
    this.#record.deleting = true;
  }

  /** Its names and ports lead elsewhere now. */
  moved(): Promise<void> {
    return this.#hooks.moved();
  }

  /** Writes the record to disk, one write after the other. */
  save(): Promise<void> {
    return this.#saving.run(async () => {
      // An instance may end after its deployment was deleted.
      if (this.#removed) return;
      this.#record.instances = this.#instances.map(({ record, hash, spec }) => ({
        ...record,
        ...(hash !== this.#record.hash && { hash, spec }),
      }));
      await this.#records.save(this.#record);
    });
  }

  forget(): Promise<void> {
    return this.#saving.run(async () => {
      this.#removed = true;
      await this.#records.remove(this.name);
    });
  }

  /** Releases the instances, which keep running. Resolves when pending writes of the record are done. */
  async release(): Promise<void> {
    await Promise.all(this.#instances.map((instance) => instance.release()));
    await this.#saving.run(() => Promise.resolve());
  }

  #state(): DeploymentState {
    if (this.transient) return this.transient;
    if (this.#record.deleting) return "deleting";
    if (this.#record.stopped) return "stopped";
    const { ready } = this;
    if (ready.some((instance) => instance.running)) return "running";
    if (ready.some((instance) => instance.active)) return "pending";
    if (ready.every(({ life: { end } }) => end?.code === 0)) {
      return ready.length > 0 ? "stopped" : "running";
    }
    return "failed";
  }

  status(): DeploymentStatus {
    const record = this.#record;
    return {
      name: record.name,
      state: this.#state(),
      image: record.image,
      ...(record.imageDigest && { imageDigest: record.imageDigest }),
      ports: this.ports,
      ...(record.spec.expose && { exposed: record.spec.expose }),
      instances: this.ready.map((instance) => instance.status()),
      ...(record.spec.labels && { labels: record.spec.labels }),
      ...(record.spec.origin && { origin: record.spec.origin }),
      createdAt: record.createdAt,
      updatedAt: record.updatedAt,
      warnings: record.warnings,
      ...(record.error && { error: record.error }),
    };
  }
}

const notRunning = (what: string) =>
  new SvcError("conflict", `Cannot use ${what}: it is not running`, {
    help: "start the deployment first",
  });

/** Removes duplicates: replicas publish the same ports. */
function distinct(instances: readonly Instance[]): PublishedPort[] {
  const ports = instances.flatMap(({ made }) => made.ports);
  return [...new Map(ports.map((port) => [JSON.stringify(port), port])).values()];
}
