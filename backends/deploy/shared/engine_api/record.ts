/** What the server remembers of a deployment; the engine knows the rest. */
import type { PublishedPort } from "../../../../lib/api/deployment.ts";
import type { InstanceUpdate } from "../../../../lib/api/workload.ts";
import type { CompanionPlan } from "../../../../lib/deploy/backend.ts";
import type { Roles } from "../../../../lib/deploy/caretakers.ts";
import type { BaseRecord } from "../../../../lib/deploy/record.ts";

export interface InstanceRecord {
  /** The engine's id of the container. */
  container: string;
  /** The container's name when it was made. */
  key: string;
  replica: number;
  /** Hash of the spec and image that it was made of. */
  hash: string;
  /** Stopped for one that is to replace it: started again where that never came. */
  yielding?: true;
  /** What was changed of its spec since it was made. */
  amended?: InstanceUpdate;
  /** Of its companion; absent: it has none. */
  roles?: Roles;
  /** What a companion of its own mounts for it: it is there before the instance, and as long. */
  mounting?: CompanionPlan;
  /** The server runs something in its network namespace. */
  beside?: true;
}

/** Containers with the deployment's label that the record does not name are left over from an apply that was cut short. */
export interface EngineRecord extends BaseRecord<InstanceRecord> {
  /** As they were when it ran last. */
  ports: PublishedPort[];
}

export const instanceId = (deployment: string, replica: number | string) =>
  `${deployment}-${replica}`;
