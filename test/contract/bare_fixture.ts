/** The bare backend on a data directory of its own, for the contract. */
import { join } from "node:path";
import { createBareBackend } from "../../backends/deploy/bare/open.ts";
import { silent } from "../../lib/base/log.ts";
import { run } from "../../lib/base/process.ts";
import { BridgeRules } from "../../lib/runtime/bridge_rules.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { freeSubnetBase } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { removeServerData } from "../peers/cleanup.ts";
import { layoutImages } from "../peers/layout_images.ts";
import type { DeployFixture } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";

type Host = Pick<HostUnderTest, "dataDir" | "allowed" | "subnetBase" | "userBridges">;

export async function bareFixture(): Promise<DeployFixture & Host> {
  const dataDir = await Deno.makeTempDir({ prefix: "svc-bare-" });
  const subnetBase = freeSubnetBase();
  const [allowed, layout] = [join(dataDir, "allowed"), join(dataDir, "layout")];
  await Deno.mkdir(allowed);
  await writeBaseLayout(layout, "base", {
    layers: [{ "var/state/seed": "from the image" }],
    volumes: ["/var/state"],
  });
  const root = join(dataDir, "build/snapshots");
  return {
    ...{ image: "base", dataDir, allowed, subnetBase },
    userBridges: [1, 2].map((index) => bridgeNetwork(subnetBase, index).bridge),
    open: (permitted) =>
      createBareBackend({
        dataDir,
        runDir: join(dataDir, "run"),
        config: {
          runtime: "runc",
          systemdCgroup: false,
          cniBinDir: "/opt/cni/bin",
          cniSubnetBase: subnetBase,
          dns: true,
          allowBindSources: [allowed],
          allowPrivileged: permitted,
          pidsLimit: 99,
          startMs: 5_000,
          takeOverMs: 6000,
        },
        snapshotter: () => createSnapshotter({ root, driver: "auto", log: silent }),
        images: layoutImages(layout),
        unpack: (snapshotter, image, { signal }) => unpackImage(snapshotter, image, { signal }),
        log: silent,
      }),
    async [Symbol.asyncDispose]() {
      await removeServerData(dataDir);
      for (const index of [0, 1, 2]) {
        const network = bridgeNetwork(subnetBase, index);
        await run("ip", ["link", "delete", network.bridge]);
        await new BridgeRules().remove(network);
      }
    },
  };
}
