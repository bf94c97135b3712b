/** The used parts of the objects of Incus's REST API 1.0. */

export interface ServerInfo {
  api_extensions: string[];
  auth: string;
  environment: { server_version?: string };
}

export type Devices = Record<string, Record<string, string>>;

export interface Address {
  family: "inet" | "inet6";
  address: string;
  scope: string;
}

export interface InstanceState {
  /** 103 runs, 110 is frozen, 102 has stopped. */
  status_code: number;
  /** -1 or 0 where it does not run. */
  pid: number;
  processes: number;
  /** Nanoseconds. */
  cpu: { usage: number };
  /** Bytes. */
  memory: { usage: number };
  network:
    | Record<string, {
      addresses: Address[];
      counters: { bytes_received: number; bytes_sent: number };
    }>
    | null;
}

export interface Instance {
  name: string;
  status_code: number;
  config: Record<string, string>;
  devices: Devices;
  profiles: string[];
  /** RFC 3339; when it was started last. */
  last_used_at: string;
  created_at: string;
  state?: InstanceState;
}

export interface Network {
  name: string;
  type: string;
  managed: boolean;
  config: Record<string, string>;
}

/** An address that a network has given out. */
export interface Lease {
  address: string;
  /** "static", "dynamic", "gateway" and others. */
  type: string;
}

export interface Volume {
  name: string;
  type: string;
  config: Record<string, string>;
  created_at?: string;
}

/** A change of something, as the events tell it. */
export interface Lifecycle {
  /** "instance-started". */
  action: string;
  /** "/1.0/instances/web-0?project=default". */
  source: string;
  /** Absent: it came about by itself. */
  requestor?: { username?: string; protocol?: string };
  project?: string;
}

export interface IncusEvent {
  type: string;
  /** RFC 3339. */
  timestamp: string;
  metadata: Lifecycle;
}

export interface Operation {
  id: string;
  /** 200 has succeeded, 400 has failed, 401 was cancelled. */
  status_code: number;
  err: string;
  metadata: Record<string, unknown> | null;
}

/** Status codes of instances. */
export const RUNNING = 103;
export const FROZEN = 110;
