/** The podman backend against a podman of the test's own, for the contract. */
import { join } from "node:path";
import { createPodmanBackend } from "../../backends/deploy/podman/open.ts";
import { podmanEndpoint } from "../../backends/deploy/podman/endpoint.ts";
import { silent } from "../../lib/base/log.ts";
import { busyboxArchive, writeBaseLayout } from "../peers/base_image.ts";
import { layoutImages } from "../peers/layout_images.ts";
import { type PodmanOptions, type PodmanPeer, startPodman } from "../peers/podman.ts";
import { type Sshd, startSshd, useSsh } from "../peers/sshd.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import type { EngineFixture } from "./engine_backend.ts";

export interface PodmanFixtureOptions extends PodmanOptions {
  /** How the backend reaches podman; default its unix socket. */
  by?: "unix" | "tcp" | "ssh";
}

export interface PodmanFixture extends EngineFixture {
  peer: PodmanPeer;
  place: PodmanPlace;
  /** By ssh: its server. */
  sshd?: Sshd;
  /** Does it outside of podman's network, as on another host. */
  outside(work: () => Promise<void>): Promise<void>;
}

/** Where a backend is opened, as another process can be told. */
export interface PodmanPlace {
  dataDir: string;
  runDir: string;
  layout: string;
  allowed: string;
  socket: string;
  pidsLimit: number;
}

export function openPodman(
  { dataDir, runDir, layout, allowed, socket, pidsLimit }: PodmanPlace,
  permitted: readonly string[] = [],
): Promise<DeployBackend> {
  return createPodmanBackend({
    dataDir,
    runDir,
    endpoint: podmanEndpoint({ socket, service: false }),
    images: layoutImages(layout),
    config: { allowBindSources: [allowed], allowPrivileged: permitted, pidsLimit },
    log: silent,
  });
}

/** The test is in podman's network until the fixture is disposed of. */
export async function podmanFixture(
  { by = "unix", ...options }: PodmanFixtureOptions = {},
): Promise<PodmanFixture> {
  await using made = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "svc-podman-" });
  made.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.chmod(folder, 0o755);
  const [layout, dataDir, allowed] = ["layout", "data", "allowed"].map((name) =>
    join(folder, name)
  );
  await Deno.mkdir(allowed);
  await writeBaseLayout(layout, "base", {
    layers: [{ "var/state/seed": "from the image" }],
    volumes: ["/var/state"],
  });
  const peer = made.use(await startPodman({ ...options, tcp: by === "tcp" }));
  let network = peer.enter();
  made.defer(() => network[Symbol.dispose]());
  let socket = by === "tcp" ? peer.tcp : peer.socket;
  let sshd: Sshd | undefined;
  if (by === "ssh") {
    sshd = made.use(await startSshd());
    made.use(await useSsh(sshd));
    socket = `ssh://peer${peer.socket}`;
  }
  const place: PodmanPlace = {
    ...{ dataDir, layout, allowed, socket },
    runDir: join(folder, "run"),
    // Hosts with both versions of control groups have no such limit in the second.
    pidsLimit: options.version === "5" || options.rootless ? 0 : 99,
  };
  const archive = join(folder, "root.tar");
  await busyboxArchive(archive);
  await Deno.chmod(archive, 0o644);
  await peer.podman("import", archive, "base:taken");
  const stack = made.move();
  return {
    ...{ peer, allowed, sshd, place },
    image: "base",
    open: (permitted) => openPodman(place, permitted),
    other: () => openPodman({ ...place, dataDir: join(folder, "other") }),
    engine: peer.podman,
    stopsUntold: true,
    async outside(work) {
      network[Symbol.dispose]();
      try {
        await work();
      } finally {
        network = peer.enter();
      }
    },
    async restart() {
      await peer.kill9();
      await peer.start();
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
