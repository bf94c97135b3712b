/** What is told of workloads: files, counters, processes, and the volumes and networks made for them. */

import type { RestartPolicy } from "./deploy_spec.ts";

/** The file at a path. */
export interface FileStat {
  /** The last part of the path. */
  name: string;
  /** Bytes. */
  size: number;
  /** Type and permissions, as in st_mode. */
  mode: number;
  /** RFC 3339. */
  modified: string;
  /** The target of a symbolic link, as written. */
  linkTarget?: string;
}

/** A file or folder that a workload has changed in its image's. */
export interface FileChange {
  path: string;
  kind: "added" | "modified" | "deleted";
}

/** What can be changed of instances as they are; absent: stays. */
export interface InstanceUpdate {
  /** Processors, fractions allowed. */
  cpuLimit?: number;
  /** Bytes. */
  memoryLimit?: number;
  reservedMemory?: number;
  restart?: RestartPolicy;
  /** The limit of the policy `on-failure`. With `restart` and without a number: no limit. */
  restartMaxAttempts?: number;
}

/** Counters since the instance's start. The values of memory and processes are current ones. */
export interface InstanceStats {
  /** RFC 3339. */
  time: string;
  instance: string;
  /** Nanoseconds of CPU time. */
  cpu: number;
  /** Bytes in use, without caches that the kernel can drop at once. */
  memory: number;
  /** Bytes; absent: no limit. */
  memoryLimit?: number;
  processes: number;
  /** Bytes. */
  blockRead: number;
  blockWritten: number;
  /** Bytes over all networks; absent where the instance uses the host's network. */
  received?: number;
  sent?: number;
}

/** Processes of one instance, as `ps` lists them. */
export interface ProcessList {
  instance: string;
  titles: string[];
  /** One row per process, one text per title. */
  processes: string[][];
}

export interface VolumeStatus {
  name: string;
  driver: string;
  /** RFC 3339; absent where the engine does not know. */
  createdAt?: string;
  labels: Record<string, string>;
  /** Names of the deployments whose specs mount it. */
  usedBy: string[];
  /** Bytes; absent where they would have to be counted. */
  size?: number;
}

export interface NetworkStatus {
  name: string;
  driver: string;
  subnet?: string;
  /** Absent: it has no IPv6, or the engine does not tell. */
  subnet6?: string;
  gateway6?: string;
  gateway?: string;
  internal: boolean;
  labels: Record<string, string>;
  /** Names of the deployments that use it. */
  usedBy: string[];
}
