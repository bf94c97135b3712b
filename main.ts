/**
 * The composition root: the only reader of arguments, environment and signals, the only caller of
 * `Deno.exit`, and the one place that knows which backends there are. What only the server needs is
 * imported when it serves, so that client commands start fast.
 */
import { join } from "./lib/base/path.ts";
import { runCli } from "./cli.ts";
import { buildInfo } from "./lib/base/build_info.ts";
import { exists, holdsEntries } from "./lib/base/fs.ts";
import { closeIdleWorkers } from "./lib/base/worker_pool.ts";
import { type Lazy, lazy } from "./lib/base/lazy.ts";
import { interruption, systemIo } from "./lib/base/terminal.ts";
import type { Interruption, Io } from "./lib/base/terminal.ts";
import type { Logger } from "./lib/base/log.ts";
import type { Lifecycle } from "./lib/server/lifecycle.ts";
import type { SelectedBackend } from "./backends/deploy/mod.ts";
import type { ServerConfig } from "./lib/config/server_options.ts";
import type { DeployBackend } from "./lib/deploy/backend.ts";
import type { ImageSink, ImageSource } from "./lib/oci/image.ts";
import type { ImageResolver } from "./lib/oci/resolver.ts";
import type { Mirror } from "./lib/registry/mirror/mirror.ts";
import type { Upkeep } from "./lib/store/upkeep.ts";
import type { ServerHost } from "./lib/server/host.ts";
import type { Listener } from "./lib/server/listener.ts";
import type { ServerMirrorOptions } from "./lib/server/mirror.ts";
import type { Outside } from "./lib/server/outside.ts";
import type { BuildWorker } from "./lib/build/worker.ts";
import type { EngineParts } from "./lib/server/engines.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** How long requests in flight may take to end after SIGTERM. */
const GRACE_MS = 30_000;

/** An upload that nobody touched for this long is dropped. */
const UPLOAD_IDLE_MS = 7 * 24 * 3_600_000;
const HOUSEKEEPING_MS = 3_600_000;

/** Who is told of SIGINT and SIGTERM: the running command, or the server. */
class Signals {
  #abort = new AbortController();
  #hurry = new AbortController();

  constructor() {
    const names: Interruption[] = Deno.build.os === "windows" ? ["SIGINT"] : ["SIGINT", "SIGTERM"];
    for (const name of names) Deno.addSignalListener(name, () => this.#receive(name));
  }

  /** Aborts with the first signal. */
  get first(): AbortSignal {
    return this.#abort.signal;
  }

  /** Resolves with the first signal, also where that has come already. */
  async received(): Promise<void> {
    if (this.first.aborted) return;
    await new Promise((stop) => this.first.addEventListener("abort", stop, { once: true }));
  }

  /** Aborts with the second one. */
  get second(): AbortSignal {
    return this.#hurry.signal;
  }

  /** Until the function that it returns is called, a hang-up is such a signal too. */
  hangups(): () => void {
    const receive = () => this.#receive("SIGHUP");
    Deno.addSignalListener("SIGHUP", receive);
    return () => Deno.removeSignalListener("SIGHUP", receive);
  }

  #receive(name: Interruption): void {
    if (!this.#abort.signal.aborted) this.#abort.abort(interruption(name));
    else if (!this.#hurry.signal.aborted) this.#hurry.abort(interruption(name));
    // Whoever asks a third time waits for nothing any more.
    else Deno.exit(interruption(name).exitCode);
  }
}

async function serve(args: string[], env: Environment, io: Io, signals: Signals): Promise<number> {
  if (args.includes("--help") || args.includes("-h")) {
    const { serveHelp } = await import("./lib/config/serve_help.ts");
    await io.stdout.write(serveHelp(io.stdout.size()?.columns));
    return 0;
  }
  const { DEFAULT_BACKEND, loadServerConfig } = await import("./lib/config/server_options.ts");
  const { batchedLines, createLogger, LOG_LEVELS } = await import("./lib/base/log.ts");
  const { config, warnings } = loadServerConfig(args, env);
  const writer = batchedLines(Deno.stderr);
  const log = createLogger({
    level: LOG_LEVELS.find((level) => level === config.logLevel) ?? "info",
    format: Deno.stderr.isTerminal() ? "text" : "json",
    write: writer.write,
  });
  const fatal = (kind: string, error: unknown) => {
    log.error(kind, { error, stack: error instanceof Error ? error.stack : String(error) });
    writer.flush();
    Deno.exit(1);
  };
  const { endInTime, Lifecycle } = await import("./lib/server/lifecycle.ts");
  const lifecycle = new Lifecycle();
  endInTime(lifecycle, { first: signals.first, second: signals.second, graceMs: GRACE_MS }, () => {
    log.warn("the server ends though not everything in it has ended");
    writer.flush();
    Deno.exit(0);
  });
  addEventListener("error", (event) => fatal("uncaught error", event.error));
  addEventListener("unhandledrejection", (event) => fatal("unhandled rejection", event.reason));
  try {
    const { selectDeployBackend } = await import("./backends/deploy/mod.ts");
    const selected = selectDeployBackend(config.deployBackend);
    // The default is a backend that this build lacks: a registry and a builder are useful without one.
    if (!selected.inBuild && config.deployBackend !== DEFAULT_BACKEND) await selected.load();
    const { prepareHost } = await import("./lib/server/host.ts");
    const { selectWorker } = await import("./backends/build/mod.ts");
    const worker = { name: config.buildWorker, ...selectWorker(config.buildWorker) };
    const host = await prepareHost({ config, env, log, selected, worker, writer, args: Deno.args });
    // After --rootless has put a new process in this one's place, which says them too.
    for (const warning of warnings) log.warn(warning);
    return await runServer({ config, env, log, signals, selected, host, lifecycle });
  } finally {
    writer.flush();
  }
}

interface ServerRun {
  config: ServerConfig;
  env: Environment;
  log: Logger;
  signals: Signals;
  selected: SelectedBackend;
  host: ServerHost;
  lifecycle: Lifecycle;
}

async function runServer(
  { config, env, log, signals, selected, host, lifecycle }: ServerRun,
): Promise<number> {
  const [
    { formatAddress, parseAddress },
    { buildLimits },
    { untaggedRetention },
    { sparseManifests },
    { openEdge },
    { createBuildCacheUpkeep },
    { openDataDir },
    { scheduleGc },
    { serverDelegation },
    { openBackend, openBuilder, openSnapshots, stepNamespaces, takeOver },
    { createOutside },
    { ServerIngress },
    { managementRoutes },
    { DeploySessions },
    { startServer, stopServer },
    { openStorage, parseStorage },
    { createContentStore },
    { createRegistry },
    { DEFAULT_TUNNEL_BACKEND },
    { createTunnels },
  ] = await Promise.all([
    import("./lib/config/address.ts"),
    import("./lib/config/server/build.ts"),
    import("./lib/config/server/gc.ts"),
    import("./lib/config/server/registry.ts"),
    import("./lib/server/edge.ts"),
    import("./lib/server/build_cache.ts"),
    import("./lib/server/data_dir.ts"),
    import("./lib/server/gc_schedule.ts"),
    import("./lib/server/delegation.ts"),
    import("./lib/server/engines.ts"),
    import("./lib/server/outside.ts"),
    import("./lib/server/ingress/ingress.ts"),
    import("./lib/server/routes.ts"),
    import("./lib/server/sessions/sessions.ts"),
    import("./lib/server/run.ts"),
    import("./backends/store/mod.ts"),
    import("./lib/store/content.ts"),
    import("./lib/registry/registry.ts"),
    import("./lib/config/server/tunnel.ts"),
    import("./backends/tunnel/mod.ts"),
  ]);
  const address = parseAddress(config.addr, "--addr");
  const { dataDir: dir } = host;
  const storage = parseStorage(config.storage, dir);
  // What is opened here is released in the opposite order, however this ends.
  await using cleanup = new AsyncDisposableStack();
  const tunnels = cleanup.use(createTunnels(config, DEFAULT_TUNNEL_BACKEND, log));
  const opened = cleanup.use(await openDataDir(dir));
  if (!opened.closed) {
    log.warn(
      "other users of this machine may read the data directory: its mode cannot be changed",
      {
        dataDir: dir,
      },
    );
  }
  const objects = await openStorage(storage, env);
  if (config.registryRedirect && !objects.signedUrl) {
    log.warn("blobs are not redirected: this storage has no addresses", { storage: storage.shown });
  }
  const content = cleanup.use(createContentStore(objects, { log }));
  const untagged = untaggedRetention(config.gcUntagged);
  const buildCache = createBuildCacheUpkeep({
    // What was never built here needs no builder to be pruned.
    builder: async () =>
      await exists(join(dir, "build", "cache")) ? await builder.get() : undefined,
    log,
  });
  const upkeep: Upkeep = {
    ...content.upkeep,
    collect: buildCache.after((options) => content.upkeep.collect({ untagged, ...options })),
  };
  const outside = createOutside({
    advertise: config.advertiseRegistry,
    dockerConfig: join(env.DOCKER_CONFIG ?? join(env.HOME ?? "/root", ".docker"), "config.json"),
    insecure: config.bareInsecureRegistries,
    userAgent: `svc/${buildInfo().version}`,
    log,
  });
  const isOwn = outside.isOwn(address);
  const spool = join(dir, "mirror");
  const mirror = config.registryMirror === undefined ? undefined : cleanup.use(
    await openMirror(config, outside, { store: content, objects, spool, isOwn, log }),
  );
  const store = mirror ?? content;

  const edge = cleanup.use(await openEdge({ config, dataDir: dir, lifecycle, log }));
  const snapshotter = lazy(() => openSnapshots(config, join(dir, "build"), log));
  const images = lazy(() => imageResolver(outside, store, listener.address));
  const parts = { config, host, snapshotter: snapshotter.get, images: images.get, log };
  const worker = lazy(() => buildWorker(parts));
  const builder = lazy(() =>
    openBuilder({ ...parts, worker: worker.get, checkedFetches: edge.access.methods.length > 0 })
  );
  const ingress = new ServerIngress({ config, backend: () => backend.get(), log });
  const backend: Lazy<DeployBackend> = lazy(async () =>
    await ingress.over(await openBackend(selected, parts))
  );
  cleanup.defer(closeIdleWorkers);
  for (const engine of [worker, builder, backend]) {
    cleanup.defer(async () =>
      await (await engine.made()?.catch(() => undefined))?.[Symbol.asyncDispose]()
    );
  }
  cleanup.use(ingress);
  const sessions = new DeploySessions({
    dataDir: dir,
    backend: backend.get,
    graceMs: config.sessionGrace,
    lifecycle,
    log,
  });
  const routes = [
    ...managementRoutes({
      lifecycle,
      ingress,
      sessions,
      tunnels,
      access: edge.access,
      internal: edge.internal,
      build: buildInfo(),
      registryHost: () => config.advertiseRegistry ?? `localhost:${listener.address.port}`,
      builder: builder.get,
      delegation: serverDelegation(config, join(dir, "build"), log, host.refused),
      deploy: { name: selected.name, backend: backend.get },
      storage: upkeep,
      buildCache,
      limits: buildLimits(config, navigator.hardwareConcurrency),
    }),
    ...edge.routes,
    ...createRegistry({
      store,
      sparse: sparseManifests(config.registrySparse),
      redirectBlobs: config.registryRedirect,
    }),
  ];
  const listener = await startServer({ ...edge, address, routes, lifecycle, log });
  // Matters where starting fails from here on; not awaited, since a handler may not return.
  cleanup.defer(() => void listener.close().catch(() => {/* closed already */}));
  // Whoever wants it to end while it starts need not wait for what it would take over.
  if (!signals.first.aborted) await takeOver(selected, config, backend.get, { host, log });
  // Steps that a crashed server left running are ended now, not when somebody builds next; their networks too.
  const left = [`${host.buildState}.bundles`, stepNamespaces(host.buildState)];
  const leftovers = await Promise.all(left.map((folder) => holdsEntries(folder)));
  if (!signals.first.aborted && leftovers.includes(true)) {
    builder.get().catch((error) => log.warn("cannot build yet", { error }));
  }
  if (!signals.first.aborted) await sessions.takeOver();
  await ingress.open(config.ingressListen, lifecycle);
  lifecycle.serving();
  const bound = formatAddress({ ...address, port: listener.address.port });
  log.info(`listening on ${bound}${edge.tls ? " with TLS" : ""}`, {
    dataDir: dir,
    storage: storage.shown,
    backend: selected.name,
  });
  const housekeeping = setInterval(() => {
    content.expireUploads(UPLOAD_IDLE_MS).catch((error) => log.warn("expiring uploads", { error }));
  }, HOUSEKEEPING_MS);
  const { gcInterval: intervalMs } = config;
  await using _gc = intervalMs === undefined
    ? undefined
    : scheduleGc({ intervalMs, collect: upkeep.collect, log });
  const { storageScrub: withinMs } = config;
  await using _scrub = withinMs === undefined
    ? undefined
    : upkeep.scrub({ withinMs, log, refetch: mirror?.refetch });
  await signals.received();
  clearInterval(housekeeping);
  log.info("shutting down", { reason: signals.first.reason.message });
  await stopServer(listener, lifecycle, { graceMs: GRACE_MS, hurry: signals.second, log });
  log.info("stopped");
  return 0;
}

/** The registry with other registries behind it. */
async function openMirror(
  config: ServerConfig,
  outside: Outside,
  parts: Pick<ServerMirrorOptions, "store" | "objects" | "spool" | "isOwn" | "log">,
): Promise<Mirror> {
  const { openServerMirror } = await import("./lib/server/mirror.ts");
  return await openServerMirror({
    ...parts,
    upstreams: config.registryMirror!,
    cache: config.registryMirrorCache,
    remote: outside.remote,
  });
}

/** Where images come from and go to: this process's store by its own names, other registries by theirs. */
async function imageResolver(
  { isOwn, remote, advertised }: Outside,
  local: ImageSource & ImageSink,
  address: Listener["address"],
): Promise<ImageResolver> {
  const { createImageResolver } = await import("./lib/server/images.ts");
  return createImageResolver({
    local,
    isOwn: isOwn(address),
    ownHost: () => advertised ?? `localhost:${address.port}`,
    remote: (host, login, via) => {
      const found = remote(host, login && { credentials: () => Promise.resolve(login) });
      return via === undefined ? found : found.through(via);
    },
  });
}

async function buildWorker({ config, host, log }: EngineParts): Promise<BuildWorker> {
  const { openWorker } = await import("./backends/build/mod.ts");
  return await openWorker(config.buildWorker, {
    root: join(host.dataDir, "build"),
    binary: config.bareRuntime,
    state: host.buildState,
    runDir: host.runDir,
    containerd: {
      address: config.containerdAddress,
      namespace: config.containerdNamespace,
      snapshotter: config.containerdSnapshotter,
    },
    log,
  });
}

/** Makes the terminal of standard input raw; what it resolves to takes that back. */
async function rawMode(): Promise<() => void> {
  if (Deno.build.os !== "linux") {
    Deno.stdin.setRaw(true);
    return () => Deno.stdin.setRaw(false);
  }
  // Deno's own leaves the processing of output on, which breaks what full-screen programs draw.
  const { rawMode } = await import("./lib/sys/termios.ts");
  return rawMode(0);
}

/** The program: one command line, then the process ends with its exit code. */
export async function main(): Promise<void> {
  const env = Deno.env.toObject();
  const signals = new Signals();
  const io = systemIo({
    signal: signals.first,
    hurry: signals.second,
    rawMode,
    onHangup: () => signals.hangups(),
  });
  const code = await runCli(Deno.args, {
    env,
    io,
    serve: (args) => serve(args, env, io, signals),
    hooks: {
      async *probeStorage(location, signal) {
        const { probeStorage } = await import("./backends/store/mod.ts");
        yield* probeStorage(location, { env, signal });
      },
    },
  });
  Deno.exit(code);
}

if (import.meta.main) await main();
