/**
 * The server's engines: what builds and what deploys, opened on first use from what the configuration says.
 * Which backends there are the composition root knows; here they are functions that load them.
 */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import type { Entitlement } from "../api/build_entitlements.ts";
import type { Logger } from "../base/log.ts";
import type { Builder } from "../build/builder.ts";
import type { StepNetworks } from "../build/networks.ts";
import type { BuildWorker } from "../build/worker.ts";
import { lazyReading } from "../config/server/build.ts";
import type { ServerConfig } from "../config/server_options.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import type { BackendModule } from "../deploy/module.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import { inUserNamespace } from "../sys/userns.ts";
import type { ServerHost } from "./host.ts";

/** The deploy backend that was chosen. */
export interface ChosenBackend {
  load: () => Promise<BackendModule>;
  /** False where this build does not have it. */
  inBuild: boolean;
}

/** One for the builder's steps and the backend's containers: they share what images have in common. */
export async function openSnapshots(
  config: ServerConfig,
  root: string,
  log: Logger,
): Promise<Snapshotter> {
  const { createSnapshotter } = await import("../snapshot/create.ts");
  const driver = config.bareSnapshotter === "overlay" || config.bareSnapshotter === "native"
    ? config.bareSnapshotter
    : "auto";
  return await createSnapshotter({ root: join(root, "snapshots"), driver, log });
}

export interface EngineParts {
  config: ServerConfig;
  host: ServerHost;
  snapshotter: () => Promise<Snapshotter>;
  images: () => Promise<ImageResolver>;
  log: Logger;
}

export async function openBuilder(
  { config, host, snapshotter, worker, images, checkedFetches, log }: EngineParts & {
    worker: () => Promise<BuildWorker>;
    /** A credential is asked for: what builds fetch is not to lead back here. */
    checkedFetches: boolean;
  },
): Promise<Builder> {
  const [{ createBuilder }, { unpackImage }] = await Promise.all([
    import("../build/engine.ts"),
    import("../snapshot/unpack.ts"),
  ]);
  const { executor, snapshotter: own, through, shelves, imageStore } = await worker();
  const shared = own ?? await snapshotter();
  const known = await images();
  const maxUnpackedBytes = config.maxBuildUnpackedBytes || undefined;
  return await createBuilder({
    root: join(host.dataDir, "build"),
    snapshotter: shared,
    executor,
    networks: await openStepNetworks(config, host, log),
    images: through?.(known) ?? known,
    shelves,
    imageStore,
    log,
    // Steps wait for networks and disks more than they compute.
    concurrency: Math.max(8, 4 * navigator.hardwareConcurrency),
    maxDownloadBytes: config.maxBuildDownloadBytes || undefined,
    maxUnpackedBytes,
    lazyReading: lazyReading(config.lazy9p),
    stepTimeoutMs: config.buildStepTimeout || undefined,
    buildTimeoutMs: config.buildTimeout || undefined,
    stepProcesses: config.buildPidsLimit || undefined,
    keepCacheBytes: config.buildCacheKeepBytes,
    checkedFetches,
    entitlements: config.buildEntitlements as Entitlement[] | undefined,
    unpack: (image, options) =>
      unpackImage(shared, image, { ...options, maxBytes: maxUnpackedBytes }),
  });
}

/** SVC_BUILD_NETWORK. */
async function openStepNetworks(
  { buildNetwork, cniBinDir, cniSubnetBase, rootless }: ServerConfig,
  { buildState, runDir }: ServerHost,
  log: Logger,
): Promise<StepNetworks> {
  const { stepNetworks } = await import("../build/networks.ts");
  if (buildNetwork === "host" || buildNetwork === "none") return stepNetworks(buildNetwork);
  const folder = stepNamespaces(buildState);
  if (rootless && inUserNamespace()) {
    const { UserNetworks } = await import("../build/user_networks.ts");
    return stepNetworks(new UserNetworks({ folder, log }));
  }
  const { BridgeNetworks } = await import("../build/bridge_networks.ts");
  const leases = join(runDir, "leases");
  return stepNetworks(new BridgeNetworks({ cniBinDir, cniSubnetBase, leases, folder, log }));
}

/** Folder of the namespaces of steps. */
export const stepNamespaces = (buildState: string): string => `${buildState}.netns`;

export async function openBackend(
  selected: ChosenBackend,
  parts: EngineParts,
): Promise<DeployBackend> {
  const [{ open }, { unpackImage }] = await Promise.all([
    selected.load(),
    import("../snapshot/unpack.ts"),
  ]);
  const { config, host, snapshotter, images, log } = parts;
  return await open({
    dataDir: host.dataDir,
    runDir: host.runDir,
    settings: config,
    snapshotter,
    images: await images(),
    unpack: (target, image, { onProgress, signal }) =>
      unpackImage(target, image, { onProgress: onProgress && (() => onProgress()), signal }),
    log,
  });
}

/**
 * Workloads of an earlier server are taken over before the new one says it is ready. What does not
 * validate ends the start; anything else that is missing leaves a registry and a builder that work, and is
 * told again by each deploy.
 */
export async function takeOver(
  selected: ChosenBackend,
  config: ServerConfig,
  backend: () => Promise<DeployBackend>,
  { host, log }: { host: ServerHost; log: Logger },
): Promise<void> {
  if (!selected.inBuild) return;
  const { validate, takesOver } = await selected.load();
  await validate?.(config, log, host);
  if (!takesOver) return;
  try {
    await (await backend()).ready?.();
  } catch (error) {
    if (!(error instanceof SvcError) || error.code === "internal") throw error;
    log.warn("cannot deploy yet", { error, help: error.help });
  }
}
