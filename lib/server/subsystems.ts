/** The parts of a server, in the order in which they are opened. */
import { join } from "node:path";
import { buildInfo } from "../base/build_info.ts";
import { exists, holdsEntries } from "../base/fs.ts";
import { type Lazy, lazy } from "../base/lazy.ts";
import { closeIdleWorkers } from "../base/worker_pool.ts";
import { BUILD, buildLimits } from "../config/server/build.ts";
import { DELEGATION } from "../config/server/delegation.ts";
import { EGRESS } from "../config/server/egress.ts";
import { FILE_CACHE } from "../config/server/file_cache.ts";
import { GC, untaggedRetention } from "../config/server/gc.ts";
import { ADVERTISED, CONTAINED } from "../config/server/general.ts";
import { INGRESS } from "../config/server/ingress.ts";
import { REGISTRY, sparseManifests } from "../config/server/registry.ts";
import { RUNTIME } from "../config/server/runtime.ts";
import { SESSIONS } from "../config/server/workloads.ts";
import { type Deployments, openDeployments } from "../deploy/deployments.ts";
import { WorkloadNamespaces } from "../deploy/namespaces.ts";
import { createRegistry } from "../registry/registry.ts";
import { createBuildCacheUpkeep } from "./build_cache.ts";
import { CARETAKER_READS, openCaretakers } from "./caretakers/open.ts";
import { KeptBlocks } from "../deploy/mounts/kept_blocks.ts";
import { CallerMountService } from "../deploy/mounts/service.ts";
import { openDataDir } from "./data_dir.ts";
import { CredentialFiles, credentialFolder } from "./credentials/files.ts";
import { CredentialService } from "./credentials/service.ts";
import { serverDelegation } from "./delegation.ts";
import { EDGE_READS, openEdge } from "./edge.ts";
import { ServerEgress } from "./egress/egress.ts";
import {
  BUILDER_READS,
  openBackend,
  openBuilder,
  openSnapshots,
  stepNamespaces,
  takeOver,
  tellOfBuilds,
} from "./engines.ts";
import { KeptFiles, keptFolders } from "./files/kept_files.ts";
import { DeliveredFileService } from "./files/service.ts";
import { GIVEN } from "./given.ts";
import { startHousekeeping } from "./housekeeping.ts";
import { ServerIngress } from "./ingress/ingress.ts";
import type { OwnAddress } from "./own_address.ts";
import type { Route } from "./route.ts";
import { managementRoutes } from "./routes.ts";
import { openApiRoute } from "./routes/openapi.ts";
import { address, images, mirror, mode, outside, registry, storage } from "./registry_parts.ts";
import { startServer, stopServer } from "./run.ts";
import { LateCallers } from "./sessions/late_callers.ts";
import { DeploySessions } from "./sessions/sessions.ts";
import { type Subsystem, subsystem } from "./subsystem.ts";

const { settings, env, log, lifecycle, host, chosen, stop } = GIVEN;

const tunnels = subsystem({
  name: "tunnels",
  needs: { chosen },
  open: ({ chosen }) => chosen.tunnels(),
});

const dataDir = subsystem({
  name: "dataDir",
  needs: { host, log },
  async open({ host, log }) {
    const opened = await openDataDir(host.dataDir);
    if (!opened.closed) {
      log.warn(
        "other users of this machine may read the data directory: its mode cannot be changed",
        { dataDir: host.dataDir },
      );
    }
    return opened;
  },
});

export const edge = subsystem({
  name: "edge",
  needs: { settings, host, lifecycle, log },
  open: ({ settings, host, lifecycle, log }) =>
    openEdge({ config: settings.of(...EDGE_READS), dataDir: host.dataDir, lifecycle, log }),
});

/** Ends idle threads of the engines at the end: they would keep the process alive. */
const idleWorkers = subsystem({
  name: "idleWorkers",
  needs: {},
  open: () => null,
  close: closeIdleWorkers,
});

/** Closes an engine that was opened on first use; does nothing for one that never was. */
const closeMade = async (engine: { made: () => Promise<AsyncDisposable> | undefined }) =>
  await (await engine.made()?.catch(() => undefined))?.[Symbol.asyncDispose]();

const snapshots = subsystem({
  name: "snapshots",
  needs: { settings, host, log },
  open: ({ settings, host, log }) =>
    lazy(() => openSnapshots(settings.of(RUNTIME), join(host.dataDir, "build"), log)),
});

const worker = subsystem({
  name: "worker",
  needs: { chosen, host, log },
  open: ({ chosen, host, log }) =>
    lazy(() =>
      chosen.worker.open({
        root: join(host.dataDir, "build"),
        state: host.buildState,
        runDir: host.runDir,
        log,
      })
    ),
  close: closeMade,
});

const builder = subsystem({
  name: "builder",
  needs: { settings, host, snapshots, images, worker, edge, log },
  open: ({ settings, host, snapshots, images, worker, edge, log }) =>
    lazy(() =>
      openBuilder({
        config: settings.of(...BUILDER_READS),
        host,
        snapshotter: snapshots.get,
        images: images.get,
        worker: worker.get,
        checkedFetches: edge.access.methods.length > 0,
        log,
      })
    ),
  close: closeMade,
});

const caretakers = subsystem({
  name: "caretakers",
  needs: { settings, host, dataDir },
  open: ({ settings, host }) =>
    openCaretakers({ config: settings.of(...CARETAKER_READS), dataDir: host.dataDir }),
});

const deployments = subsystem({
  name: "deployments",
  needs: { settings, chosen, host, snapshots, registry, images, caretakers, log },
  async open({ settings, chosen, host, snapshots, registry, images, caretakers, log }) {
    const namespaces = new WorkloadNamespaces(({ instance }, error) =>
      log.error("nothing runs beside an instance that should have it", { instance, error })
    );
    const callers = new LateCallers();
    const egress = new ServerEgress({
      config: settings.of(EGRESS),
      ability: async () => (await backend.get()).caps.egress,
      ...{ namespaces, callers, log },
    });
    const ingress = new ServerIngress({
      config: settings.of(INGRESS),
      backend: () => backend.get(),
      log,
    });
    const mounts = new CallerMountService({
      folder: join(host.dataDir, "mounts"),
      graceMs: settings.of(SESSIONS).sessionGrace,
      kept: await KeptBlocks.open(settings.of(FILE_CACHE), host.dataDir),
      byCompanions: async () => (await backend.get()).caps.companionMounts === true,
      ...{ callers, log },
    });
    await mounts.sweep();
    const credentials = new CredentialService({
      files: new CredentialFiles(credentialFolder(host)),
      ...{ callers, namespaces, log },
    });
    const files = new DeliveredFileService(new KeptFiles(await keptFolders(host)));
    const common = { host, snapshotter: snapshots.get, images: images.get, log };
    const parts = { ...common, namespaces, caretakers };
    const backend: Lazy<Deployments> = lazy(async () =>
      await openDeployments(
        await openBackend(chosen.deploy, parts),
        [ingress, egress, mounts, credentials, files],
        log,
      )
    );
    registry.connect(backend.get);
    return { backend, ingress, egress, credentials, mounts, callers };
  },
  async close({ backend, ingress, egress, credentials }) {
    ingress[Symbol.dispose]();
    await egress[Symbol.asyncDispose]();
    await credentials[Symbol.asyncDispose]();
    await closeMade(backend);
  },
});

const sessions = subsystem({
  name: "sessions",
  needs: { settings, host, deployments, lifecycle, log },
  async open({ settings, host, deployments, lifecycle, log }) {
    const sessions = new DeploySessions({
      dataDir: host.dataDir,
      backend: deployments.backend.get,
      graceMs: settings.of(SESSIONS).sessionGrace,
      lifecycle,
      log,
    });
    // Before the first request: a caller that resumes its session at once must find it.
    await sessions.takeOver();
    deployments.callers.connect(sessions);
    await deployments.credentials.sweep();
    return sessions;
  },
});

const upkeep = subsystem({
  name: "upkeep",
  needs: { settings, host, storage, builder, deployments, log },
  open({ settings, host, storage: { content }, builder, deployments, log }) {
    const untagged = untaggedRetention(settings.of(GC).gcUntagged);
    const buildCache = createBuildCacheUpkeep({
      // A server that has never built opens no builder just to prune its cache.
      builder: async () =>
        await exists(join(host.dataDir, "build", "cache")) ? await builder.get() : undefined,
      images: async () => (await deployments.backend.made())?.caps.pruneImages,
      log,
    });
    return {
      ...content.upkeep,
      buildCache,
      collect: buildCache.after((options) => content.upkeep.collect({ untagged, ...options })),
    };
  },
});

const registryHost = (advertised: string | undefined, { bound }: OwnAddress) =>
  advertised ?? `localhost:${bound.port}`;

const delegation = subsystem({
  name: "delegation",
  needs: { settings, env, chosen, host, registry, address, log },
  open: ({ settings, env, chosen, host, registry, address, log }) =>
    serverDelegation(settings.of(DELEGATION), {
      root: join(host.dataDir, "build"),
      refused: host.refused,
      container: async () =>
        (await import("./builder/open.ts")).openEngineBuilder({
          settings: settings.of(DELEGATION, CONTAINED),
          env,
          folders: host,
          registry: {
            mode: registry.mode,
            host: () => registryHost(settings.of(ADVERTISED).advertiseRegistry, address),
          },
          backend: {
            name: chosen.deploy.name,
            module: chosen.deploy.inBuild ? await chosen.deploy.load() : undefined,
          },
          log,
        }),
      log,
    }),
});

const listener = subsystem({
  name: "listener",
  needs: {
    settings,
    chosen,
    stop,
    lifecycle,
    address,
    outside,
    registry,
    edge,
    builder,
    delegation,
    caretakers,
    deployments,
    sessions,
    tunnels,
    upkeep,
    log,
  },
  async open(parts) {
    const { settings, chosen, lifecycle, address, edge, deployments, upkeep, log } = parts;
    const routes: Route[] = [
      openApiRoute(() => routes),
      ...managementRoutes({
        lifecycle,
        ingress: deployments.ingress,
        sessions: parts.sessions,
        caretakers: parts.caretakers,
        credentials: deployments.credentials,
        mounts: deployments.mounts,
        tunnels: parts.tunnels,
        access: edge.access,
        internal: edge.internal,
        build: buildInfo(),
        registryMode: parts.registry.mode,
        registryWritable: parts.registry.view.writer !== undefined,
        registryHost: () => registryHost(settings.of(ADVERTISED).advertiseRegistry, address),
        isOwnHost: (host) => parts.outside.isOwn(address.bound)(host),
        builder: parts.builder.get,
        delegation: parts.delegation,
        deploy: { ...chosen.deploy, backend: deployments.backend.get },
        storage: upkeep,
        buildCache: upkeep.buildCache,
        limits: buildLimits(settings.of(BUILD), navigator.hardwareConcurrency),
      }),
      ...edge.routes,
      ...createRegistry({
        ...parts.registry.view,
        sparse: sparseManifests(settings.of(REGISTRY).registrySparse),
        redirectBlobs: settings.of(REGISTRY).registryRedirect,
      }),
    ];
    const listener = await startServer({
      ...edge,
      refusePeer: edge.refusePeers?.(deployments.backend.get),
      address: address.asked,
      routes,
      lifecycle,
      log,
    });
    address.bind(listener.address.port);
    return listener;
  },
  async close(listener, { lifecycle, stop, log }) {
    if (lifecycle.phase !== "starting") await stopServer(listener, lifecycle, { ...stop, log });
    // Where the start failed, no request is waited for. Not awaited, since a handler may never return.
    void listener.close().catch(() => {/* closed already */});
  },
});

/** What an earlier server left: its workloads and sessions go on, its unfinished builds are ended. */
const takenOver = subsystem({
  name: "takenOver",
  needs: { chosen, host, stop, listener, deployments, sessions, builder, delegation, log },
  async open({ chosen, host, stop, deployments, sessions, builder, delegation, log }) {
    // A server that is told to stop while it starts does not take over workloads.
    const { first } = stop;
    if (!first.aborted) await takeOver(chosen.deploy, deployments.backend.get, { host, log });
    if (!first.aborted) sessions.endUnmounted();
    tellOfBuilds(delegation, log).catch((error) => log.warn("cannot build yet", { error }));
    // Opening the builder ends build steps that a crashed server left running, and their networks, now and not
    // at the next build.
    const left = [`${host.buildState}.bundles`, stepNamespaces(host.buildState)];
    const leftovers = await Promise.all(left.map((folder) => holdsEntries(folder)));
    if (!first.aborted && leftovers.includes(true)) {
      builder.get().catch((error) => log.warn("cannot build yet", { error }));
    }
    return null;
  },
});

const frontDoor = subsystem({
  name: "frontDoor",
  needs: { settings, deployments, lifecycle, takenOver },
  async open({ settings, deployments, lifecycle }) {
    await deployments.ingress.open(settings.of(INGRESS).ingressListen, lifecycle);
    return null;
  },
});

const housekeeping = subsystem({
  name: "housekeeping",
  needs: { settings, storage, mirror, upkeep, log },
  open: ({ settings, storage, mirror, upkeep, log }) =>
    startHousekeeping({
      config: settings.of(GC),
      expireUploads: (idleMs) => storage.content.expireUploads(idleMs),
      upkeep,
      refetch: mirror?.refetch,
      log,
    }),
});

export const SUBSYSTEMS = [
  tunnels,
  dataDir,
  mode,
  storage,
  address,
  outside,
  mirror,
  registry,
  edge,
  idleWorkers,
  snapshots,
  images,
  worker,
  builder,
  delegation,
  caretakers,
  deployments,
  sessions,
  upkeep,
  listener,
  takenOver,
  frontDoor,
  housekeeping,
] as readonly Subsystem[];
