/** One deployment in memory: its record on disk and its instances. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type {
  DeploymentState,
  DeploymentStatus,
  PublishedPort,
} from "../../../lib/api/deployment.ts";
import { Mutex } from "../../../lib/base/mutex.ts";
import type { Host } from "./host.ts";
import { Instance } from "./instance.ts";
import type { DeploymentRecord, InstanceRecord, RecordStore } from "./record.ts";

export interface DeploymentHooks {
  /** Rewrites the hosts files of every container. */
  moved: () => Promise<void>;
}

export class Deployment {
  readonly record: DeploymentRecord;
  instances: Instance[] = [];
  /** What is being done to it now. */
  transient: DeploymentState | undefined;
  /** Names of networks that are being set up for it: no instance's record may have them yet. */
  joining: readonly string[] = [];
  #host: Host;
  #records: RecordStore;
  #hooks: DeploymentHooks;
  #saving = new Mutex();
  #removed = false;

  constructor(host: Host, records: RecordStore, record: DeploymentRecord, hooks: DeploymentHooks) {
    this.#host = host;
    this.#records = records;
    this.#hooks = hooks;
    this.record = record;
  }

  get name(): string {
    return this.record.name;
  }

  /** An instance object over a record; not yet one of `instances`. */
  instance(spec: DeploySpec, record: InstanceRecord): Instance {
    return new Instance(this.#host, spec, record, {
      save: () => this.save(),
      moved: this.#hooks.moved,
      named: () => {
        this.#hooks.moved().catch((error) =>
          this.#host.log.warn("names were not written", { deployment: this.name, error })
        );
      },
    });
  }

  /** What its names lead to has changed. */
  moved(): Promise<void> {
    return this.#hooks.moved();
  }

  /** Puts the record on disk, one write after the other. */
  save(): Promise<void> {
    return this.#saving.run(async () => {
      // An instance's end may come after its deployment was deleted.
      if (this.#removed) return;
      this.record.instances = this.instances.map((instance) => instance.record);
      await this.#records.save(this.record);
    });
  }

  forget(): Promise<void> {
    return this.#saving.run(async () => {
      this.#removed = true;
      await this.#records.remove(this.name);
    });
  }

  /** Lets go of the instances, which go on; what is being written of them is on disk afterwards. */
  async release(): Promise<void> {
    await Promise.all(this.instances.map((instance) => instance.release()));
    await this.#saving.run(() => Promise.resolve());
  }

  /** The instances that make it up now: not those that come or go. */
  get ready(): Instance[] {
    return this.instances.filter((instance) => instance.record.phase === "ready");
  }

  /** Ports that lead here at this moment. */
  get published(): PublishedPort[] {
    return this.instances.flatMap(({ record }) => record.published ? record.ports : []);
  }

  #state(): DeploymentState {
    if (this.transient) return this.transient;
    if (this.record.deleting) return "deleting";
    if (this.record.stopped) return "stopped";
    const { ready } = this;
    if (ready.some((instance) => instance.running)) return "running";
    if (ready.some((instance) => instance.active)) return "pending";
    if (ready.every((instance) => instance.record.exitCode === 0)) {
      return ready.length > 0 ? "stopped" : "running";
    }
    return "failed";
  }

  status(): DeploymentStatus {
    const { record } = this;
    return {
      name: record.name,
      state: this.#state(),
      image: record.image,
      ...(record.imageDigest && { imageDigest: record.imageDigest }),
      ports: this.ready.flatMap((instance) => instance.record.ports),
      ...(record.spec.expose && { exposed: record.spec.expose }),
      instances: this.ready.map((instance) => instance.status()),
      ...(record.spec.origin && { origin: record.spec.origin }),
      createdAt: record.createdAt,
      updatedAt: record.updatedAt,
      warnings: record.warnings,
      ...(record.error && { error: record.error }),
    };
  }
}
