/** One deployment: its record, and what the engine says of its containers. */
import type {
  DeploymentState,
  DeploymentStatus,
  InstanceStatus,
} from "../../../../lib/api/deployment.ts";
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { JsonRecords } from "../../../../lib/deploy/json_records.ts";
import { emptyRecord } from "../../../../lib/deploy/record.ts";
import {
  deploymentState,
  type Inspected,
  instanceStatus,
  publishedPorts,
  runs,
} from "./inspect.ts";
import { type EngineRecord, instanceId, type InstanceRecord } from "./record.ts";
import type { EngineWatch } from "./watch.ts";

export interface DeploymentParts {
  watch: EngineWatch;
  records: JsonRecords<EngineRecord>;
  /** Whether the companion of an instance is attached, by the instance's key. */
  isAttached?: (key: string) => boolean;
}

export class Deployment {
  readonly record: EngineRecord;
  /** What is being done to it. */
  transient?: DeploymentState;
  /** The engine's names of the networks that an apply attaches it to. */
  joining: readonly string[] = [];
  readonly #parts: DeploymentParts;

  constructor(parts: DeploymentParts, record: EngineRecord) {
    this.#parts = parts;
    this.record = record;
  }

  static fresh(parts: DeploymentParts, spec: DeploySpec): Deployment {
    return new Deployment(parts, { ...emptyRecord<InstanceRecord>(spec), ports: [] });
  }

  get name(): string {
    return this.record.name;
  }

  /** False until the first apply is done. */
  get made(): boolean {
    return this.record.hash !== "";
  }

  /** By replica; `found` undefined: somebody else removed the container. */
  get instances(): { instance: InstanceRecord; found: Inspected | undefined }[] {
    return this.record.instances
      .map((instance) => ({ instance, found: this.#parts.watch.state(instance.container) }))
      .sort((a, b) => a.instance.replica - b.instance.replica);
  }

  /** True once its removal has come so far that nothing of it is left but the record. */
  get gone(): boolean {
    return this.record.deleting && this.instances.every(({ found }) => !found);
  }

  /** Throws `not_found`. Absent: the first one that runs, else the first. */
  pick(id?: string): InstanceRecord {
    const all = this.instances;
    const chosen = id === undefined
      ? all.find(({ found }) => found && runs(found)) ?? all[0]
      : all.find(({ instance: { replica } }) =>
        [instanceId(this.name, replica), String(replica)].includes(id)
      );
    if (chosen) return chosen.instance;
    const there = all.map(({ instance: { replica } }) => instanceId(this.name, replica));
    throw new SvcError(
      "not_found",
      id === undefined
        ? `Cannot use deployment ${this.name}: it has no instance`
        : `Cannot find instance ${id}: deployment ${this.name} has ${there.join(", ") || "none"}`,
    );
  }

  /** Asks the engine for the containers' present states. */
  async look(): Promise<void> {
    await Promise.all(
      this.record.instances.map(({ container }) => this.#parts.watch.look(container)),
    );
    const now = this.instances.flatMap(({ found }) => found ? publishedPorts(found) : []);
    if (now.length > 0) this.record.ports = now;
  }

  status(): DeploymentStatus {
    const { record, instances } = this;
    const found = instances.map((one) => one.found);
    const now = found.flatMap((one) => one ? publishedPorts(one) : []);
    return {
      name: record.name,
      state: this.transient ?? deploymentState(record, found),
      image: record.image,
      ...(record.imageDigest && { imageDigest: record.imageDigest }),
      ports: now.length > 0 ? now : record.ports,
      ...(record.spec.expose && { exposed: record.spec.expose }),
      instances: instances.map((one) => ({
        ...instanceStatus(this.name, one.instance, one.found),
        ...this.#companion(one.instance),
      })),
      ...(record.spec.labels && { labels: record.spec.labels }),
      ...(record.spec.origin && { origin: record.spec.origin }),
      createdAt: record.createdAt,
      updatedAt: record.updatedAt,
      warnings: record.warnings,
      ...(record.error && { error: record.error }),
    };
  }

  #companion({ key, roles }: InstanceRecord): Pick<InstanceStatus, "companion"> {
    const { isAttached } = this.#parts;
    return roles && isAttached ? { companion: isAttached(key) ? "attached" : "away" } : {};
  }

  save(): Promise<void> {
    return this.#parts.records.save(this.record);
  }

  forget(): Promise<void> {
    return this.#parts.records.remove(this.name);
  }
}
