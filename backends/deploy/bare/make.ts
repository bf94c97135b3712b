/** Puts the bare engine together from the backend's settings. */
import type { HostPaths } from "../../../lib/deploy/host/paths.ts";
import { SnapshotRoots, type SnapshotRootsOptions } from "../../../lib/deploy/host/roots.ts";
import type { BareConfig } from "./config.ts";
import { BareEngine } from "./engine.ts";
import { findTools } from "./preflight.ts";

export interface MakeOptions extends Pick<SnapshotRootsOptions, "snapshotter" | "unpack"> {
  paths: HostPaths;
  config: BareConfig;
  dataDir: string;
  runDir: string;
}

export function makeEngine(
  { paths, config, dataDir, runDir, snapshotter, unpack }: MakeOptions,
): BareEngine {
  const { runtime: binary, systemdCgroup } = config;
  const runtime = { binary, root: paths.runtime, systemdCgroup };
  return new BareEngine({
    ...{ paths, config },
    roots: new SnapshotRoots({ snapshotter, unpack, prefix: "bare", instances: paths.instances }),
    findTools: () => findTools(runtime, { folder: dataDir, runDir }),
  });
}
