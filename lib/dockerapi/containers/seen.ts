/** Containers as they are now: a record, and what the server says of its deployment. */
import type { DeploymentStatus, InstanceStatus } from "../../api/deployment.ts";
import { idOf } from "../ids.ts";
import { type ContainerRecord, givenLabels, LABELS } from "./record.ts";

export interface Seen {
  record: ContainerRecord;
  status: DeploymentStatus;
  /** Absent: the deployment has none. */
  instance?: InstanceStatus;
}

/** docker's words. */
export type State = "created" | "running" | "paused" | "restarting" | "exited";

const UP = new Set(["running", "healthy", "unhealthy"]);

export const isUp = (instance: InstanceStatus | undefined) =>
  instance !== undefined && (UP.has(instance.state) || instance.state === "paused");

export function stateOf({ status, instance }: Seen): State {
  if (!instance || instance.state === "created") return "created";
  if (instance.state === "paused") return "paused";
  if (UP.has(instance.state)) return "running";
  return status.state === "pending" ? "restarting" : "exited";
}

/** 137 for one that has no code. */
export const exitCodeOf = ({ instance }: Seen) =>
  isUp(instance) || instance?.state === "created" ? 0 : instance?.exitCode ?? 137;

/** A container of a deployment that was made without this API, or whose record is lost. */
function foreign(status: DeploymentStatus, instance: InstanceStatus | undefined): ContainerRecord {
  const { labels = {}, name } = status;
  const known = labels[LABELS.id];
  const own = { Image: status.image, Labels: givenLabels(labels) };
  return {
    id: known ?? idOf(`${name} ${status.createdAt} ${instance?.id ?? ""}`),
    name: labels[LABELS.name] ?? instance?.id ?? name,
    deployment: name,
    ...!known && instance && { instance: instance.id },
    created: status.createdAt,
    image: status.image,
    imageId: "",
    ...{ given: own, config: own },
    ...{ hostConfig: {}, endpoints: {}, mounts: [], anonymous: [] },
    source: { image: status.image, binds: [] },
    started: instance !== undefined && instance.state !== "created",
  };
}

/** All containers of a deployment. */
export function seenOf(status: DeploymentStatus, record: ContainerRecord | undefined): Seen[] {
  const { instances } = status;
  if (record) return [{ record, status, ...instances[0] && { instance: instances[0] } }];
  if (status.labels?.[LABELS.id] !== undefined || instances.length === 0) {
    const [instance] = instances;
    return [{ record: foreign(status, instance), status, ...instance && { instance } }];
  }
  return instances.map((instance) => ({ record: foreign(status, instance), status, instance }));
}
