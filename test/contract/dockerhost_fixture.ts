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
import type { EngineFixture } from "./engine_backend.ts";

export interface DockerhostFixture extends EngineFixture {
  daemon: DockerdPeer;
  /** The server's data directory. */
  dataDir: string;
  /** Opens a server with other data that reaches the daemon by these settings. */
  by(settings: EndpointSettings): Promise<DeployBackend>;
}

/** The test is in the daemon's network until the fixture is disposed of. */
export async function dockerhostFixture(options: DockerdOptions = {}): Promise<DockerhostFixture> {
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
  const network = daemon.enter();
  const open = (
    dataDir: string,
    permitted: readonly string[],
    settings: EndpointSettings = { host: daemon.host },
  ) =>
    createDockerhostBackend({
      dataDir,
      endpoint: dockerEndpoint(settings),
      images: layoutImages(layout),
      config: { allowBindSources: [allowed], allowPrivileged: permitted, pidsLimit: 99 },
      log: silent,
    });
  await busyboxArchive(join(folder, "root.tar"));
  await daemon.docker("import", join(folder, "root.tar"), "base:taken");
  return {
    ...{ daemon, dataDir, allowed },
    image: "base",
    open: (permitted) => open(dataDir, permitted),
    other: () => open(join(folder, "other"), []),
    by: (settings) => open(join(folder, "far"), [], settings),
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
