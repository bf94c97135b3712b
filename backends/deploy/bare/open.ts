/** The bare backend as the table's entry: settings by the server's names, and what its start checks. */
import type { Logger } from "../../../lib/base/log.ts";
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import type { BackendParts, BackendSettings } from "../../../lib/deploy/module.ts";
import { createBareBackend } from "./backend.ts";
import { validateBareRuntime } from "./preflight.ts";

export const takesOver = true;

/** SPEC "Bare backend": the runtime is validated at startup. */
export async function validate(
  settings: BackendSettings,
  log: Logger,
  { dataDir, runDir }: { dataDir: string; runDir: string },
): Promise<void> {
  const { bareRuntime: runtime, bareSystemdCgroup: systemdCgroup } = settings;
  await validateBareRuntime({ runtime, systemdCgroup }, { folder: dataDir, runDir });
  if (settings.hostNetwork === "0") {
    log.warn("published ports are reachable inside this server's container only", {
      reason: "SVC_HOST_NETWORK=0",
    });
  }
}

export function open({ settings, runDir, ...parts }: BackendParts): Promise<DeployBackend> {
  return createBareBackend({
    ...parts,
    config: {
      runtime: settings.bareRuntime,
      systemdCgroup: settings.bareSystemdCgroup,
      cniBinDir: settings.cniBinDir,
      cniSubnetBase: settings.cniSubnetBase,
      dns: settings.bareDns,
      allowBindSources: settings.allowBindSources,
      allowPrivileged: settings.allowPrivileged,
      pidsLimit: settings.workloadPidsLimit,
      startMs: settings.workloadStartTimeout,
      runDir,
    },
  });
}
