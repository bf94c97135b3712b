/** The paths and names that a host engine uses. */
import { createHash } from "node:crypto";
import { join } from "node:path";

export interface HostPaths {
  deployments: string;
  /** A folder per container: its bundle. */
  instances: string;
  logs: string;
  netns: string;
  /** Prepared namespaces, also after an instance has taken one. */
  spares: string;
  exits: string;
  volumes: string;
  networks: string;
  /** What restarts containers while no server runs. */
  shim: string;
  /** Below the run folder: state that a reboot must empty. */
  runtime: string;
  /** Below the run folder: where bind sources are mounted while a container is made. */
  binds: string;
  /** Below the run folder: where roots of stopped containers are mounted while files are copied. */
  roots: string;
  /** Below the run folder: a folder for each instance that it shares with its companion. */
  companions: string;
  leases: string;
  /** Below the run folder: a note of each server of this host. */
  servers: string;
  dataDir: string;
  /** Chain of the nat table with the rules of published ports. */
  portChain: string;
}

/** `name`: the engine's folder in the data directory. `runDir`: a folder that a reboot empties. */
export function hostPaths(name: string, dataDir: string, runDir = "/run/svc"): HostPaths {
  const root = join(dataDir, name);
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
    shim: join(root, "shim"),
    runtime: join(runDir, own, "runtime"),
    binds: join(runDir, own, "binds"),
    roots: join(runDir, own, "roots"),
    companions: join(runDir, own, "companions"),
    // Shared by all servers of this host: two servers may use one bridge.
    leases: join(runDir, "leases"),
    servers: join(runDir, "servers"),
    dataDir,
    portChain: `SVC-PORTS-${own}`,
  };
}
