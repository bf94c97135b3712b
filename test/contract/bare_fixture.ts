/** The bare backend on a data directory of its own, for the contract. */
import { join } from "node:path";
import type { BareConfig } from "../../backends/deploy/bare/config.ts";
import { createBareBackend } from "../../backends/deploy/bare/open.ts";
import { silent } from "../../lib/base/log.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { layoutImages } from "../peers/layout_images.ts";
import type { DeployFixture } from "./deploy_suite.ts";
import { type Host, hostConfig, hostPlace } from "./host_fixture.ts";

/** Opens the backend on the data of a {@linkcode bareFixture}. `config`: settings unlike the contract's. */
export function openBare(
  { dataDir, subnetBase }: Pick<Host, "dataDir" | "subnetBase">,
  config: Partial<BareConfig> = {},
): Promise<DeployBackend> {
  const root = join(dataDir, "build/snapshots");
  return createBareBackend({
    dataDir,
    runDir: join(dataDir, "run"),
    config: {
      ...hostConfig({ dataDir, subnetBase }),
      runtime: "runc",
      systemdCgroup: false,
      allowPrivileged: [],
      ...config,
    },
    snapshotter: () => createSnapshotter({ root, driver: "auto", log: silent }),
    images: layoutImages(join(dataDir, "layout")),
    unpack: (snapshotter, image, { signal }) => unpackImage(snapshotter, image, { signal }),
    log: silent,
  });
}

/** `config` as for {@linkcode openBare}. */
export async function bareFixture(
  config: Partial<BareConfig> = {},
): Promise<DeployFixture & Host> {
  const place = await hostPlace("bare");
  return {
    ...place,
    open: (allowPrivileged) => openBare(place, { allowPrivileged, ...config }),
  };
}
