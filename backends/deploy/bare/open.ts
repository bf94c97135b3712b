/** The bare backend's entry for the table: its settings, and the checks at the server's start. */
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import type { BackendModule, BackendParts } from "../../../lib/deploy/module.ts";
import { openHostBackend } from "../../../lib/deploy/host/backend.ts";
import type { HostConfig } from "../../../lib/deploy/host/config.ts";
import { checkOwnNetwork } from "../../../lib/deploy/host/own_network.ts";
import { hostPaths } from "../../../lib/deploy/host/paths.ts";
import { SnapshotRoots } from "../../../lib/deploy/host/roots.ts";
import { BareEngine } from "./engine.ts";
import { BARE_FIELDS } from "./fields.ts";
import type { BareSettings } from "./options.ts";
import { type StatsSource, statsSourceOf } from "./usage.ts";
import { findTools, validateBareRuntime } from "./preflight.ts";

/** Values of the server's options of the same names. */
export interface BareConfig extends HostConfig {
  /** SVC_RUNTIME. */
  runtime: string;
  systemdCgroup: boolean;
  /** SVC_BARE_STATS_SOURCE; absent: by the runtime's name. */
  statsSource?: StatsSource;
  /** SVC_WORKLOAD_START_TIMEOUT, in milliseconds. */
  startMs: number;
}

export interface BareOptions extends BackendParts {
  config: BareConfig;
}

/** All files are below `bare` in the data directory. */
export function createBareBackend(
  { dataDir, runDir, config, images, log, snapshotter, unpack }: BareOptions,
): Promise<DeployBackend> {
  const paths = hostPaths("bare", dataDir, runDir);
  const { runtime: binary, systemdCgroup, startMs, statsSource } = config;
  const engine = new BareEngine({
    paths,
    systemdCgroup,
    startMs,
    statsSource: statsSource ?? statsSourceOf(binary),
    roots: new SnapshotRoots({ snapshotter, unpack, prefix: "bare", instances: paths.instances }),
    findTools: () =>
      findTools({ binary, root: paths.runtime, systemdCgroup }, { folder: dataDir, runDir }),
  });
  return openHostBackend({
    name: "bare",
    paths,
    config,
    engine,
    images,
    fields: BARE_FIELDS,
    log,
  });
}

export function bareModule(settings: BareSettings): BackendModule {
  const { runtime, bareSystemdCgroup: systemdCgroup } = settings;
  return {
    takesOver: true,

    /** SPEC "Bare backend": the runtime is validated at startup. */
    async validate(log, { dataDir, runDir }) {
      await checkOwnNetwork({ hostNetwork: settings.hostNetwork, backend: "bare", log });
      await validateBareRuntime({ runtime, systemdCgroup }, { folder: dataDir, runDir });
    },

    open: (parts) =>
      createBareBackend({
        ...parts,
        config: {
          runtime,
          systemdCgroup,
          statsSource: (settings.bareStatsSource || undefined) as StatsSource | undefined,
          cniBinDir: settings.cniBinDir,
          cniSubnetBase: settings.cniSubnetBase,
          dns: settings.bareDns,
          allowBindSources: settings.allowBindSources,
          allowPrivileged: settings.allowPrivileged,
          pidsLimit: settings.workloadPidsLimit,
          startMs: settings.workloadStartTimeout,
        },
      }),
  };
}
