/**
 * The calls of containerd's API that svc makes, with their field numbers (containerd/api, services v1). The
 * calls about images are in image_api.ts.
 */
import { field, many, method } from "../wire/grpc/method.ts";
import type { Schema } from "../wire/grpc/protobuf.ts";

/** google.protobuf.Any. */
export interface AnyMessage {
  typeUrl: string;
  value: Uint8Array;
}
const ANY: Schema = { typeUrl: field(1), value: field(2, "bytes") };

export const Version = method<Record<never, never>, { version: string }>(
  "containerd.services.version.v1.Version/Version",
  {},
  { version: field(1) },
);

// Snapshots

export interface MountMessage {
  type: string;
  source: string;
  target: string;
  options: string[];
}
const MOUNT: Schema = { type: field(1), source: field(2), target: field(3), options: many(4) };
const MOUNTS: Schema = { mounts: many(1, MOUNT) };

export interface SnapshotMessage {
  name: string;
  parent: string;
  /** 1 view, 2 active, 3 committed. */
  kind: number;
  labels: Record<string, string>;
}
const SNAPSHOT: Schema = {
  name: field(1),
  parent: field(2),
  kind: field(3, "uint"),
  labels: field(6, "labels"),
};

interface Mounts {
  mounts: MountMessage[];
}
interface SnapshotKey {
  snapshotter: string;
  key: string;
}
const SNAPSHOTS = "containerd.services.snapshots.v1.Snapshots";
const KEY: Schema = { snapshotter: field(1), key: field(2) };

export const Snapshots = {
  prepare: method<SnapshotKey & { parent?: string; labels?: Record<string, string> }, Mounts>(
    `${SNAPSHOTS}/Prepare`,
    { ...KEY, parent: field(3), labels: field(4, "labels") },
    MOUNTS,
  ),
  mounts: method<SnapshotKey, Mounts>(`${SNAPSHOTS}/Mounts`, KEY, MOUNTS),
  commit: method<SnapshotKey & { name: string; labels?: Record<string, string> }, unknown>(
    `${SNAPSHOTS}/Commit`,
    { snapshotter: field(1), name: field(2), key: field(3), labels: field(4, "labels") },
  ),
  remove: method<SnapshotKey, unknown>(`${SNAPSHOTS}/Remove`, KEY),
  /** The answer comes in several messages. */
  list: method<{ snapshotter: string; filters?: string[] }, { info: SnapshotMessage[] }>(
    `${SNAPSHOTS}/List`,
    { snapshotter: field(1), filters: many(2) },
    { info: many(1, SNAPSHOT) },
  ),
};

// Leases

const LEASES = "containerd.services.leases.v1.Leases";

/** A resource that a lease keeps. */
interface LeaseResource {
  id: string;
  resource: { id: string; type: "content" };
}
const RESOURCE: Schema = { id: field(1), resource: field(2, { id: field(1), type: field(2) }) };

export const Leases = {
  create: method<{ id: string; labels?: Record<string, string> }, unknown>(
    `${LEASES}/Create`,
    { id: field(1), labels: field(3, "labels") },
  ),
  /** With `sync` the call starts a garbage collection and answers when it has ended. */
  delete: method<{ id: string; sync?: boolean }, unknown>(
    `${LEASES}/Delete`,
    { id: field(1), sync: field(2, "bool") },
  ),
  list: method<{ filters?: string[] }, { leases: { id: string }[] }>(
    `${LEASES}/List`,
    { filters: many(1) },
    { leases: many(1, { id: field(1) }) },
  ),
  add: method<LeaseResource, unknown>(`${LEASES}/AddResource`, RESOURCE),
  drop: method<LeaseResource, unknown>(`${LEASES}/DeleteResource`, RESOURCE),
};

// Containers

export interface ContainerMessage {
  id: string;
  labels?: Record<string, string>;
  runtime?: { name: string };
  spec?: AnyMessage;
}
const CONTAINER: Schema = {
  id: field(1),
  labels: field(2, "labels"),
  runtime: field(4, { name: field(1) }),
  spec: field(5, ANY),
};
const CONTAINERS = "containerd.services.containers.v1.Containers";

export const Containers = {
  create: method<{ container: ContainerMessage }, unknown>(
    `${CONTAINERS}/Create`,
    { container: field(1, CONTAINER) },
  ),
  delete: method<{ id: string }, unknown>(`${CONTAINERS}/Delete`, { id: field(1) }),
  list: method<{ filters?: string[] }, { containers: ContainerMessage[] }>(
    `${CONTAINERS}/List`,
    { filters: many(1) },
    { containers: many(1, CONTAINER) },
  ),
};

// Tasks

const TASKS = "containerd.services.tasks.v1.Tasks";
const TASK: Schema = { containerId: field(1) };

export const Tasks = {
  create: method<
    { containerId: string; stdin?: string; stdout?: string; stderr?: string; terminal?: boolean },
    { pid: number }
  >(
    `${TASKS}/Create`,
    {
      containerId: field(1),
      stdin: field(4),
      stdout: field(5),
      stderr: field(6),
      terminal: field(7, "bool"),
    },
    { pid: field(2, "uint") },
  ),
  start: method<{ containerId: string }, { pid: number }>(
    `${TASKS}/Start`,
    TASK,
    { pid: field(1, "uint") },
  ),
  wait: method<{ containerId: string }, { exitStatus: number }>(
    `${TASKS}/Wait`,
    TASK,
    { exitStatus: field(1, "uint") },
  ),
  kill: method<{ containerId: string; signal: number; all?: boolean }, unknown>(
    `${TASKS}/Kill`,
    { containerId: field(1), signal: field(3, "uint"), all: field(4, "bool") },
  ),
  delete: method<{ containerId: string }, { exitStatus: number }>(
    `${TASKS}/Delete`,
    TASK,
    { exitStatus: field(3, "uint") },
  ),
};
