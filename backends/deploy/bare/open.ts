/** The bare backend's entry for the table: its settings, and the checks at the server's start. */
import { ownCommand } from "../../../lib/base/own_command.ts";
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import type { CompanionOptions } from "../../../lib/deploy/companions.ts";
import type { BackendModule, BackendParts } from "../../../lib/deploy/module.ts";
import { openHostBackend } from "../../../lib/deploy/host/backend.ts";
import { checkOwnNetwork } from "../../../lib/deploy/host/own_network.ts";
import { hostPaths } from "../../../lib/deploy/host/paths.ts";
import type { BareConfig } from "./config.ts";
import { BARE_FIELDS } from "./fields.ts";
import { makeEngine } from "./make.ts";
import type { BareSettings } from "./options.ts";
import { validateBareRuntime } from "./preflight.ts";
import { takeOver } from "./shim.ts";
import type { StatsSource } from "./usage.ts";

export interface BareOptions extends BackendParts {
  beside?: CompanionOptions;
  config: BareConfig;
}

/** All files are below `bare` in the data directory. */
export async function createBareBackend(
  { dataDir, runDir, config, images, log, namespaces, beside, snapshotter, unpack }: BareOptions,
): Promise<DeployBackend> {
  const paths = hostPaths("bare", dataDir, runDir);
  const engine = makeEngine({ paths, config, dataDir, runDir, snapshotter, unpack });
  using taking = new DisposableStack();
  taking.use(await takeOver(paths.shim, config.shim && { dataDir, runDir, config }));
  const fields = BARE_FIELDS;
  const backend = await openHostBackend({
    ...{ name: "bare", paths, config, engine, images, fields, namespaces, beside, log },
    // A container's document goes to the runtime alone, which keeps no variables.
    secretEnv: true,
  });
  engine.holds(taking.move());
  return backend;
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

    open: async (parts) =>
      await createBareBackend({
        ...parts,
        ...parts.caretakers && {
          beside: {
            caretakers: parts.caretakers,
            variable: "SVC_BARE_REMOTE",
            always: settings.bareRemote,
          },
        },
        config: {
          runtime,
          systemdCgroup,
          shim: settings.bareShim ? await ownCommand(["keep", "bare"]) : undefined,
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
