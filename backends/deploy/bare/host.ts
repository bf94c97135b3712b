/** What every part of the bare backend works with: folders, settings, programs. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Logger } from "../../../lib/base/log.ts";
import type { Runtime } from "../../../lib/runtime/runtime.ts";
import type { BridgeDriver } from "../../../lib/runtime/network.ts";
import type { Snapshotter } from "../../../lib/snapshot/snapshotter.ts";
import type { BackendParts } from "../../../lib/deploy/module.ts";
import type { NamedVolumes } from "../../../lib/deploy/volumes.ts";
import type { ExitWatcher } from "./exits.ts";
import type { NetworkTable } from "./networks.ts";
import type { Resolvers } from "./resolvers.ts";
import type { Spares } from "./spares.ts";

/** Values of the server's options of the same names. */
export interface BareConfig {
  /** SVC_BARE_RUNTIME. */
  runtime: string;
  systemdCgroup: boolean;
  cniBinDir: string;
  cniSubnetBase: string;
  /** SVC_BARE_DNS. */
  dns: boolean;
  allowBindSources: readonly string[];
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  /** SVC_WORKLOAD_PIDS_LIMIT; 0: none. */
  pidsLimit: number;
  /** SVC_WORKLOAD_START_TIMEOUT, in milliseconds. */
  startMs: number;
  /** Milliseconds in which a replacement has to listen where the one before it does; default 5 minutes. */
  takeOverMs?: number;
  /** Folder that a reboot empties; default /run/svc. */
  runDir?: string;
}

/** Everything stays below `bare` of the data directory. */
export interface BareOptions extends Omit<BackendParts, "runDir" | "settings"> {
  config: BareConfig;
}

export interface Paths {
  deployments: string;
  instances: string;
  logs: string;
  netns: string;
  /** Namespaces made ahead, and those that instances took from there. */
  spares: string;
  exits: string;
  volumes: string;
  /** Where bind sources are mounted while a container is made. */
  binds: string;
  networks: string;
  /** Below the run folder: what a reboot must empty. */
  runtime: string;
  leases: string;
}

export function barePaths(dataDir: string, runDir = "/run/svc"): Paths {
  const root = join(dataDir, "bare");
  const own = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  return {
    deployments: join(root, "deployments"),
    instances: join(root, "instances"),
    logs: join(root, "logs"),
    netns: join(root, "netns"),
    spares: join(root, "spares"),
    exits: join(root, "exits"),
    volumes: join(root, "volumes"),
    networks: join(root, "networks.json"),
    runtime: join(runDir, own, "runtime"),
    binds: join(runDir, own, "binds"),
    // Shared by every server of this host: two of them may use one bridge.
    leases: join(runDir, "leases"),
  };
}

/** Programs that were found, and their versions checked. */
export interface Tools {
  runtime: Runtime;
  /** Absolute: the monitor is given paths. */
  runtimePath: string;
  conmon: string;
  /** A static init for `init: true`, where the host has one. */
  init?: string;
}

export interface Host {
  paths: Paths;
  config: BareConfig;
  log: Logger;
  exits: ExitWatcher;
  networks: NetworkTable;
  bridges: BridgeDriver;
  resolvers: Resolvers;
  volumes: NamedVolumes;
  spares: Spares;
  snapshotter(): Promise<Snapshotter>;
  /** Throws `prerequisite_missing`; looked up once. */
  tools(): Promise<Tools>;
}
