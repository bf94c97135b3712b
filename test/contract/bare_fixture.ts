/** The bare backend on a data directory of its own, for the contract. */
import { join } from "node:path";
import { createBareBackend } from "../../backends/deploy/bare/open.ts";
import { silent } from "../../lib/base/log.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import type { DeployFixture } from "./deploy_suite.ts";
import { type Host, hostPlace } from "./host_fixture.ts";

export async function bareFixture(): Promise<DeployFixture & Host> {
  const place = await hostPlace("bare");
  const { dataDir, images, config } = place;
  const root = join(dataDir, "build/snapshots");
  return {
    ...place,
    open: (permitted) =>
      createBareBackend({
        dataDir,
        runDir: join(dataDir, "run"),
        config: {
          ...config,
          runtime: "runc",
          systemdCgroup: false,
          allowPrivileged: permitted,
        },
        snapshotter: () => createSnapshotter({ root, driver: "auto", log: silent }),
        images,
        unpack: (snapshotter, image, { signal }) => unpackImage(snapshotter, image, { signal }),
        log: silent,
      }),
  };
}
