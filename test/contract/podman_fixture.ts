/** The podman backend against a podman of the test's own, for the contract. */
import { join } from "node:path";
import { createPodmanBackend } from "../../backends/deploy/podman/open.ts";
import { podmanEndpoint } from "../../backends/deploy/podman/endpoint.ts";
import { silent } from "../../lib/base/log.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { layoutImages } from "../peers/layout_images.ts";
import { type PodmanOptions, type PodmanPeer, startPodman } from "../peers/podman.ts";
import type { DeployFixture } from "./deploy_suite.ts";

export interface PodmanFixture extends DeployFixture {
  peer: PodmanPeer;
}

/** The test is in podman's network until the fixture is disposed of. */
export async function podmanFixture(options: PodmanOptions = {}): Promise<PodmanFixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-podman-" });
  const [layout, dataDir, allowed] = ["layout", "data", "allowed"].map((name) =>
    join(folder, name)
  );
  await Deno.mkdir(allowed);
  await writeBaseLayout(layout, "base", {
    layers: [{ "var/state/seed": "from the image" }],
    volumes: ["/var/state"],
  });
  const peer = await startPodman(options);
  const network = peer.enter();
  return {
    peer,
    image: "base",
    open: (permitted) =>
      createPodmanBackend({
        dataDir,
        runDir: join(folder, "run"),
        endpoint: podmanEndpoint({ socket: peer.socket, service: false }),
        images: layoutImages(layout),
        config: {
          allowBindSources: [allowed],
          allowPrivileged: permitted,
          // Hosts with both versions of control groups have no such limit in the second.
          pidsLimit: options.version === "5" || options.rootless ? 0 : 99,
        },
        log: silent,
      }),
    async [Symbol.asyncDispose]() {
      network[Symbol.dispose]();
      await peer[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}
