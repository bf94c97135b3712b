/** The dockerhost backend against a daemon of the test's own, for the contract. */
import { join } from "node:path";
import { createDockerhostBackend } from "../../backends/deploy/dockerhost/open.ts";
import { silent } from "../../lib/base/log.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { dockerEndpoint, type EndpointSettings } from "../../lib/docker/endpoint.ts";
import { busyboxArchive, writeBaseLayout } from "../peers/base_image.ts";
import { type DockerdOptions, type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { layoutImages } from "../peers/layout_images.ts";
import { writeRuntime } from "../peers/runtime.ts";
import type { EngineName } from "./deploy_engines.ts";
import type { EngineFixture } from "./engine_backend.ts";

export const DOCKER_COMMANDS = "dockerd docker busybox unshare nsenter ip iptables".split(" ");

export const DOCKER_DAEMONS: [EngineName, DockerdOptions][] = [
  ["dockerhost, Docker 20.10, graph store", { version: "20.10" }],
  ["dockerhost, Docker 28, graph store", { version: "28" }],
  ["dockerhost, Docker 28, containerd store", { version: "28", store: "containerd" }],
];

export interface DockerhostFixture extends EngineFixture {
  daemon: DockerdPeer;
  /** The server's data directory. */
  dataDir: string;
  place: DockerhostPlace;
  /** Opens a server with other data that reaches the daemon by these settings. */
  by(settings: EndpointSettings): Promise<DeployBackend>;
  /** Does it outside of the daemon's network, as on another host. */
  outside(work: () => Promise<void>): Promise<void>;
}

/** Where a backend is opened, as another process can be told. */
export interface DockerhostPlace {
  dataDir: string;
  layout: string;
  allowed: string;
  host: string;
}

/** `settings`: how the daemon is reached; default by the place's own address. */
export function openDockerhost(
  { dataDir, layout, allowed, host }: DockerhostPlace,
  permitted: readonly string[] = [],
  settings: EndpointSettings = { host },
): Promise<DeployBackend> {
  return createDockerhostBackend({
    dataDir,
    endpoint: dockerEndpoint(settings),
    images: layoutImages(layout),
    config: { allowBindSources: [allowed], allowPrivileged: permitted, pidsLimit: 99 },
    log: silent,
  });
}

/**
 * The test is in the daemon's network until the fixture is disposed of. `way`: how servers reach the daemon; absent:
 * by its unix socket.
 */
export async function dockerhostFixture(
  options: DockerdOptions = {},
  way: (daemon: DockerdPeer) => EndpointSettings = ({ host }) => ({ host }),
): Promise<DockerhostFixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-dockerhost-" });
  const [layout, dataDir, allowed] = ["layout", "data", "allowed"].map((name) =>
    join(folder, name)
  );
  await Deno.mkdir(allowed);
  await writeBaseLayout(layout, "base", {
    layers: [{ "var/state/seed": "from the image" }],
    volumes: ["/var/state"],
  });
  const runtime = await writeRuntime(join(folder, "runtime"));
  const daemon = await startDockerd(join(folder, "daemon"), {
    network: "own",
    ...options,
    config: { runtimes: { test: { path: runtime } }, "default-runtime": "test", ...options.config },
  });
  let network = daemon.enter();
  const place = { dataDir, layout, allowed, host: daemon.host };
  const open = (
    dataDir: string,
    permitted: readonly string[],
    settings = way(daemon),
  ) => openDockerhost({ ...place, dataDir }, permitted, settings);
  await busyboxArchive(join(folder, "root.tar"));
  // What an image says of itself is its maker's, whom nobody has asked.
  const labels = ["--change", "LABEL traefik.enable=true tier=front"];
  await daemon.docker("import", ...labels, join(folder, "root.tar"), "base:taken");
  return {
    ...{ daemon, dataDir, allowed, place },
    image: "base",
    open: (permitted) => open(dataDir, permitted),
    other: () => open(join(folder, "other"), []),
    by: (settings) => open(join(folder, "far"), [], settings),
    async outside(work) {
      network[Symbol.dispose]();
      try {
        await work();
      } finally {
        network = daemon.enter();
      }
    },
    engine: daemon.docker,
    async restart() {
      await daemon.kill9();
      await daemon.start();
    },
    async [Symbol.asyncDispose]() {
      network[Symbol.dispose]();
      await daemon[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}
