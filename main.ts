/**
 * The composition root: the only reader of arguments, environment and signals, the only caller of
 * `Deno.exit`, and the one place that knows which backends there are. What only the server needs is
 * imported when it serves, so that client commands start fast.
 */
import { runCli } from "./cli.ts";
import { interruption, systemIo } from "./lib/base/terminal.ts";
import type { Interruption, Io } from "./lib/base/terminal.ts";
import type { Logger } from "./lib/base/log.ts";
import type { Lifecycle } from "./lib/server/lifecycle.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Milliseconds that requests in flight may take after SIGTERM. */
const GRACE_MS = 30_000;

/** Signals that a command may pass on besides SIGINT and SIGTERM. */
const PASSED = ["SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;

/** Passes SIGINT and SIGTERM to the running command, or to the server. */
class Signals {
  #listener?: (name: string) => boolean;
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

  /** Aborts with the second one. */
  get second(): AbortSignal {
    return this.#hurry.signal;
  }

  /** Treats a hang-up as such a signal until the returned function is called. */
  hangups(): () => void {
    const receive = () => this.#receive("SIGHUP");
    Deno.addSignalListener("SIGHUP", receive);
    return () => Deno.removeSignalListener("SIGHUP", receive);
  }

  /** Calls `listener` with signals until the returned function is called (lib/base/terminal.ts). */
  listen(listener: (name: string) => boolean): () => void {
    this.#listener = listener;
    const names = Deno.build.os === "windows" ? [] : PASSED;
    const passing = names.map((name) => [name, () => void listener(name)] as const);
    for (const [name, pass] of passing) Deno.addSignalListener(name, pass);
    return () => {
      this.#listener = undefined;
      for (const [name, pass] of passing) Deno.removeSignalListener(name, pass);
    };
  }

  #receive(name: Interruption): void {
    if (this.#listener?.(name)) return;
    if (!this.#abort.signal.aborted) this.#abort.abort(interruption(name));
    else if (!this.#hurry.signal.aborted) this.#hurry.abort(interruption(name));
    // A third signal ends the process at once.
    else Deno.exit(interruption(name).exitCode);
  }
}

/** Logs ends of the process that the server does not see: uncaught errors, and a shutdown that hangs. */
async function watchEnd(log: Logger, flush: () => void, signals: Signals): Promise<Lifecycle> {
  const fatal = (kind: string, error: unknown) => {
    log.error(kind, { error, stack: error instanceof Error ? error.stack : String(error) });
    flush();
    Deno.exit(1);
  };
  addEventListener("error", (event) => fatal("uncaught error", event.error));
  addEventListener("unhandledrejection", (event) => fatal("unhandled rejection", event.reason));
  const { endInTime, Lifecycle } = await import("./lib/server/lifecycle.ts");
  const lifecycle = new Lifecycle();
  endInTime(lifecycle, { first: signals.first, second: signals.second, graceMs: GRACE_MS }, () => {
    log.warn("the server ends though not everything in it has ended");
    flush();
    Deno.exit(0);
  });
  return lifecycle;
}

async function serve(args: string[], env: Environment, io: Io, signals: Signals): Promise<number> {
  const { BACKEND_TABLES } = await import("./backends/options.ts");
  if (args.includes("--help") || args.includes("-h")) {
    const { serveHelp } = await import("./lib/config/serve_help.ts");
    await io.stdout.write(serveHelp(BACKEND_TABLES, io.stdout.size()?.columns));
    return 0;
  }
  const { loadServerSettings } = await import("./lib/config/server_options.ts");
  const { settings, warnings } = loadServerSettings(args, env, BACKEND_TABLES);
  const { openServerLog } = await import("./lib/server/log.ts");
  const { log, flush } = openServerLog(settings, Deno.stderr);
  const lifecycle = await watchEnd(log, flush, signals);
  try {
    const { selectDeployBackend } = await import("./backends/deploy/mod.ts");
    const { selectWorker } = await import("./backends/build/mod.ts");
    const deploy = selectDeployBackend(settings);
    const worker = selectWorker(settings);
    // The default backend may be missing in this build: a registry and a builder are useful without one.
    if (!deploy.inBuild && deploy.chosen) await deploy.load();
    const { prepareHost } = await import("./lib/server/host.ts");
    const host = await prepareHost({ settings, env, log, deploy, worker, flush, args: Deno.args });
    // Logged only now: --rootless replaces this process by a new one, which logs them too.
    for (const warning of warnings) log.warn(warning);
    const [{ runServer }, { selectStorage }, { createTunnels }] = await Promise.all([
      import("./lib/server/serve.ts"),
      import("./backends/store/mod.ts"),
      import("./backends/tunnel/mod.ts"),
    ]);
    const storage = selectStorage(settings, host.dataDir);
    const tunnels = () => createTunnels(settings, log);
    await runServer({
      settings,
      env,
      log,
      lifecycle,
      host,
      chosen: { deploy, worker, storage, tunnels },
      stop: { first: signals.first, hurry: signals.second, graceMs: GRACE_MS },
    });
    log.info("stopped");
    return 0;
  } finally {
    flush();
  }
}

/** Makes the terminal of standard input raw; the resolved function restores it. */
async function rawMode(): Promise<() => void> {
  if (Deno.build.os !== "linux") {
    Deno.stdin.setRaw(true);
    return () => Deno.stdin.setRaw(false);
  }
  // Deno's own raw mode keeps output processing on, which garbles full-screen programs.
  const { rawMode } = await import("./lib/sys/termios.ts");
  return rawMode(0);
}

/** The program: one command line, then the process ends with its exit code. */
export async function main(): Promise<void> {
  if (Deno.args[0] === "keep") {
    // Started by what watches a workload, in a place without a server; see backends/deploy/bare/shim.ts.
    const { keep } = await import("./backends/deploy/mod.ts");
    console.log(await keep(Deno.args.slice(1)));
    Deno.exit(0);
  }
  if (Deno.args[0] === "mount-files") {
    // Started by a server, for the mounts of one session; see lib/deploy/mounts/serve.ts.
    const { serveMounts } = await import("./lib/deploy/mounts/serve.ts");
    Deno.exit(await serveMounts(Deno.args[1] ?? ""));
  }
  const env = Deno.env.toObject();
  const signals = new Signals();
  const io = systemIo({
    signal: signals.first,
    hurry: signals.second,
    rawMode,
    onHangup: () => signals.hangups(),
    onSignal: (listener) => signals.listen(listener),
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
