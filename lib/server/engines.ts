/**
 * The server's build engine and deploy backend, opened on first use as the configuration says. Only the
 * composition root knows which backends exist; this file gets functions that load them.
 */
import { join } from "node:path";
import type { Entitlement } from "../api/build_entitlements.ts";
import type { Logger } from "../base/log.ts";
import type { Builder } from "../build/builder.ts";
import type { StepNetworks } from "../build/networks.ts";
import type { BuildWorker } from "../build/worker.ts";
import { BUILD, lazyReading } from "../config/server/build.ts";
import { PROCESS } from "../config/server/general.ts";
import { NETWORKS } from "../config/server/networks.ts";
import { RUNTIME } from "../config/server/runtime.ts";
import type { SettingsOf } from "../config/table.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import type { Caretakers } from "../deploy/caretakers.ts";
import type { Deployments } from "../deploy/deployments.ts";
import type { WorkloadNamespaces } from "../deploy/namespaces.ts";
import type { BackendModule } from "../deploy/module.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import { traced } from "../snapshot/traced.ts";
import { inUserNamespace } from "../sys/userns.ts";
import type { Delegation } from "./delegation.ts";
import { type DeployChoice, deployFacts } from "./deploy_facts.ts";
import type { ServerHost } from "./host.ts";

/** The deploy backend that the configuration chose. */
export interface ChosenBackend extends Omit<DeployChoice, "backend"> {
  load: () => Promise<BackendModule>;
  /** False where this build of svc does not contain the backend. */
  inBuild: boolean;
}

/** One snapshot store for the builder's steps and the backend's containers, so that they share image layers. */
export async function openSnapshots(
  { snapshotter, snapshotterTrace }: SettingsOf<[typeof RUNTIME]>,
  root: string,
  log: Logger,
): Promise<Snapshotter> {
  const { createSnapshotter } = await import("../snapshot/create.ts");
  const driver = snapshotter === "overlay" || snapshotter === "native" ? snapshotter : "auto";
  const made = await createSnapshotter({ root: join(root, "snapshots"), driver, log });
  return snapshotterTrace ? traced(made, log) : made;
}

/** The options that a builder is opened with. */
export const BUILDER_READS = [BUILD, NETWORKS, PROCESS, RUNTIME] as const;

type BuilderSettings = SettingsOf<typeof BUILDER_READS>;

export interface EngineParts {
  host: ServerHost;
  snapshotter: () => Promise<Snapshotter>;
  images: () => Promise<ImageResolver>;
  /** What svc runs beside workloads. */
  namespaces?: WorkloadNamespaces;
  log: Logger;
}

export async function openBuilder(
  { config, host, snapshotter, worker, images, checkedFetches, log }: EngineParts & {
    config: BuilderSettings;
    worker: () => Promise<BuildWorker>;
    /** A credential is asked for: fetches by builds must not lead back to this server. */
    checkedFetches: boolean;
  },
): Promise<Builder> {
  const [{ createBuilder }, { unpackImage }] = await Promise.all([
    import("../build/engine.ts"),
    import("../snapshot/unpack.ts"),
  ]);
  const { executor, snapshotter: own, through, shelves, imageStore } = await worker();
  const shared = own && config.snapshotterTrace ? traced(own, log) : own ?? await snapshotter();
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
    // Steps mostly wait for networks and disks, so more of them than processors run at once.
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

/** The networks of build steps (SVC_BUILD_NETWORK). */
async function openStepNetworks(
  { buildNetwork, cniBinDir, cniSubnetBase, rootless }: BuilderSettings,
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

/** Folder of the steps' network namespaces. */
export const stepNamespaces = (buildState: string): string => `${buildState}.netns`;

export async function openBackend(
  selected: ChosenBackend,
  parts: EngineParts & { caretakers: Caretakers },
): Promise<DeployBackend> {
  const [{ open }, { unpackImage }] = await Promise.all([
    selected.load(),
    import("../snapshot/unpack.ts"),
  ]);
  const { host, snapshotter, images, namespaces, caretakers, log } = parts;
  return await open({
    namespaces,
    dataDir: host.dataDir,
    runDir: host.runDir,
    snapshotter,
    images: await images(),
    unpack: (target, image, { onProgress, signal }) =>
      unpackImage(target, image, { onProgress: onProgress && (() => onProgress()), signal }),
    caretakers,
    log,
  });
}

/**
 * Takes over the workloads of an earlier server before the new server reports ready. An invalid configuration
 * ends the start. A backend that cannot be opened leaves the registry and the builder working, and every deploy
 * reports the reason again.
 */
export async function takeOver(
  selected: ChosenBackend,
  backend: () => Promise<Deployments>,
  { host, log }: { host: ServerHost; log: Logger },
): Promise<void> {
  if (!selected.inBuild) return;
  const { name, otherwise } = selected;
  const { validate, takesOver } = await selected.load();
  await validate?.(log, host);
  if (!takesOver) return;
  const { info, refused } = await deployFacts({ name, backend, otherwise });
  if (refused?.code === "internal") throw refused;
  if (refused) log.warn("cannot deploy yet", { error: refused, help: refused.help });
  else if (info.engine) log.info(`deployments run on ${info.engine}`, { backend: name });
}

/** Says where builds run, unless they run in this process. */
export async function tellOfBuilds(
  delegation: Pick<Delegation, "plan">,
  log: Logger,
): Promise<void> {
  const { at, reason } = await delegation.plan();
  if (at === "nowhere") log.warn("cannot build here", { reason });
  if (at === "container") {
    log.info("builds run in a container, which the first build starts: this user cannot mount(2)");
  }
}
