/** containerd's calls about containers that stay, with their field numbers: what builds do not need. */
import { field, many, method } from "../wire/grpc/method.ts";
import type { Schema } from "../wire/grpc/protobuf.ts";
import type { AnyMessage, ContainerMessage } from "./api.ts";

const ANY: Schema = { typeUrl: field(1), value: field(2, "bytes") };

/** google.protobuf.Timestamp. */
export interface Timestamp {
  seconds: number;
  nanos: number;
}
const TIMESTAMP: Schema = { seconds: field(1, "uint"), nanos: field(2, "uint") };

export const dateOf = (time: Timestamp | undefined): Date =>
  time ? new Date(time.seconds * 1000 + Math.floor(time.nanos / 1e6)) : new Date();

/** The options of containerd's shim for runc; type "containerd.runc.v1.Options". */
export const RUNC_OPTIONS_TYPE = "containerd.runc.v1.Options";
export const RUNC_OPTIONS: Schema = { binaryName: field(6), root: field(7) };

/** A container with all that `ctr container info` shows of it. */
export interface Workload extends ContainerMessage {
  image?: string;
  runtime?: { name: string; options?: AnyMessage };
}
const WORKLOAD: Schema = {
  id: field(1),
  labels: field(2, "labels"),
  image: field(3),
  runtime: field(4, { name: field(1), options: field(2, ANY) }),
  spec: field(5, ANY),
};
const CONTAINERS = "containerd.services.containers.v1.Containers";

export const Workloads = {
  create: method<{ container: Workload }, unknown>(
    `${CONTAINERS}/Create`,
    { container: field(1, WORKLOAD) },
  ),
  get: method<{ id: string }, { container: Workload }>(
    `${CONTAINERS}/Get`,
    { id: field(1) },
    { container: field(1, WORKLOAD) },
  ),
  /** Changes what `mask` names: "spec", or labels ("labels.KEY"), of which an empty value removes one. */
  update: method<
    { container: Pick<Workload, "id" | "labels" | "spec">; mask: { paths: string[] } },
    unknown
  >(`${CONTAINERS}/Update`, { container: field(1, WORKLOAD), mask: field(2, { paths: many(1) }) }),
};

/** Values of {@linkcode TaskProcess.status}. */
export const CREATED = 1, RUNNING = 2, STOPPED = 3, PAUSED = 4, PAUSING = 5;

export interface TaskProcess {
  pid: number;
  status: number;
  exitStatus: number;
  exitedAt?: Timestamp;
}
const PROCESS: Schema = {
  pid: field(3, "uint"),
  status: field(4, "uint"),
  exitStatus: field(9, "uint"),
  exitedAt: field(10, TIMESTAMP),
};
const TASKS = "containerd.services.tasks.v1.Tasks";
const TASK: Schema = { containerId: field(1) };

export const WorkloadTasks = {
  get: method<{ containerId: string }, { process?: TaskProcess }>(
    `${TASKS}/Get`,
    TASK,
    { process: field(1, PROCESS) },
  ),
  pause: method<{ containerId: string }, unknown>(`${TASKS}/Pause`, TASK),
  resume: method<{ containerId: string }, unknown>(`${TASKS}/Resume`, TASK),
  update: method<{ containerId: string; resources: AnyMessage }, unknown>(
    `${TASKS}/Update`,
    { ...TASK, resources: field(2, ANY) },
  ),
  resize: method<{ containerId: string; width: number; height: number }, unknown>(
    `${TASKS}/ResizePty`,
    { containerId: field(1), width: field(3, "uint"), height: field(4, "uint") },
  ),
};

/** The event of the topic {@linkcode TASK_EXIT}. */
export interface TaskExit {
  containerId: string;
  /** The container's id where its own process ended, else the id of a command that was run beside it. */
  id: string;
  pid: number;
  exitStatus: number;
  exitedAt?: Timestamp;
}
export const TASK_EXIT = "/tasks/exit";
export const TASK_EXIT_EVENT: Schema = {
  containerId: field(1),
  id: field(2),
  pid: field(3, "uint"),
  exitStatus: field(4, "uint"),
  exitedAt: field(5, TIMESTAMP),
};

export const Subscribe = method<
  { filters: string[] },
  { namespace: string; topic: string; event?: AnyMessage }
>(
  "containerd.services.events.v1.Events/Subscribe",
  { filters: many(1) },
  { namespace: field(2), topic: field(3), event: field(4, ANY) },
);

/** What containerd's parts say that they can do. */
export const Capabilities = method<
  { filters: string[] },
  { plugins: { id: string; capabilities: string[] }[] }
>(
  "containerd.services.introspection.v1.Introspection/Plugins",
  { filters: many(1) },
  { plugins: many(1, { id: field(2), capabilities: many(6) }) },
);
