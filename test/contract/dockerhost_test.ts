/** The contract of deploy backends, by Docker 20.10 and 28. */
import { requireTools } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { deployBackendContract } from "./deploy_backend.ts";
import { deployCrowd, madeBy } from "./crowd.ts";
import { deployFiles } from "./deploy_files.ts";
import { deployImages } from "./deploy_images.ts";
import { deployRollOut } from "./deploy_roll_out.ts";
import { deployContract } from "./deploy_suite.ts";
import { deployVolumes } from "./deploy_volumes.ts";
import { dockerhostFaults } from "./dockerhost_faults.ts";
import { DOCKER_COMMANDS, DOCKER_DAEMONS, dockerhostFixture } from "./dockerhost_fixture.ts";
import { engineBackend } from "./engine_backend.ts";
import { engineFaults, forgetBy } from "./engine_faults.ts";
import { ALL_TRANSPORTS } from "./transports.ts";

for (const [name, options] of DOCKER_DAEMONS) {
  // Docker 28 has both stores: with the older one, what depends on the images.
  const parts = options.version === "28" && options.store !== "containerd" && !ALL_TRANSPORTS
    ? [deployBackendContract, deployFiles, deployImages, deployVolumes]
    : undefined;
  deployContract({
    name,
    parts,
    ...requireTools({
      root: true,
      commands: DOCKER_COMMANDS,
      files: options.version === "28" ? [UNSTABLE_READY] : [],
    }),
    open: () => dockerhostFixture(options),
    own: (test, under, fixture) => {
      if (parts) return;
      deployRollOut(test, under);
      engineBackend(test, under, fixture);
      dockerhostFaults(test, under, fixture);
      const made = () => madeBy(fixture.engine);
      // What it asks of the engine is the same by each of them.
      if (options.version === "20.10") {
        deployCrowd(test, under, made);
        const socket = fixture.daemon.host.replace("unix://", "");
        engineFaults(test, under, { socket, made, forget: forgetBy(fixture.engine, "rmi", "-f") });
      }
    },
  });
}
