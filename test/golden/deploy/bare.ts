/** A bare backend of its own, with the images of the cases. */
import { join } from "node:path";
import { createBareBackend } from "../../../backends/deploy/bare/open.ts";
import { silent } from "../../../lib/base/log.ts";
import { run } from "../../../lib/base/process.ts";
import { PRIVILEGED_KINDS } from "../../../lib/deploy/privileges.ts";
import { BridgeRules } from "../../../lib/runtime/bridge_rules.ts";
import { bridgeNetwork } from "../../../lib/runtime/network.ts";
import { createSnapshotter } from "../../../lib/snapshot/create.ts";
import { unpackImage } from "../../../lib/snapshot/unpack.ts";
import { freeSubnetBase } from "../../e2e/harness.ts";
import { removeServerData } from "../../peers/cleanup.ts";
import { layoutImages } from "../../peers/layout_images.ts";
import { backendRunner } from "./backend.ts";
import type { Case, Runner } from "./case.ts";
import { writeImages } from "./images.ts";
import { ownNamespaces } from "./suite.ts";

export async function withBare(
  cases: readonly Case[],
  work: (runner: Runner) => Promise<void>,
): Promise<void> {
  const dataDir = await Deno.makeTempDir({ prefix: "svc-golden-" });
  const subnet = freeSubnetBase();
  try {
    const layout = join(dataDir, "layout");
    await writeImages(layout, cases, (tag) => ({ "org.opencontainers.image.ref.name": tag }));
    await using backend = await createBareBackend({
      dataDir,
      runDir: join(dataDir, "run"),
      config: {
        runtime: "runc",
        systemdCgroup: false,
        cniBinDir: "/opt/cni/bin",
        cniSubnetBase: subnet,
        dns: true,
        allowBindSources: [],
        allowPrivileged: PRIVILEGED_KINDS,
        // Docker has none by default.
        pidsLimit: 0,
        startMs: 60_000,
      },
      snapshotter: () =>
        createSnapshotter({ root: join(dataDir, "build/snapshots"), driver: "auto", log: silent }),
      images: layoutImages(layout),
      unpack: (snapshotter, image, { signal }) => unpackImage(snapshotter, image, { signal }),
      log: silent,
    });
    await work(backendRunner(backend, await ownNamespaces()));
  } finally {
    await removeServerData(dataDir);
    const network = bridgeNetwork(subnet, 0);
    await run("ip", ["link", "delete", network.bridge]);
    await new BridgeRules().remove(network);
  }
}
