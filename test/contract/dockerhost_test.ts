/** The contract of deploy backends, by Docker 20.10 and 28. */
import { requireTools } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { deployCrowd, madeBy } from "./deploy_crowd.ts";
import { deployRollOut } from "./deploy_roll_out.ts";
import { deployContract } from "./deploy_suite.ts";
import { dockerhostFaults } from "./dockerhost_faults.ts";
import { DOCKER_COMMANDS, DOCKER_DAEMONS, dockerhostFixture } from "./dockerhost_fixture.ts";
import { engineBackend } from "./engine_backend.ts";
import { engineFaults, forgetBy } from "./engine_faults.ts";

for (const [name, options] of DOCKER_DAEMONS) {
  deployContract({
    name,
    ...requireTools({
      root: true,
      commands: DOCKER_COMMANDS,
      files: options.version === "28" ? [UNSTABLE_READY] : [],
    }),
    open: () => dockerhostFixture(options),
    own: (test, under, fixture) => {
      deployRollOut(test, under);
      engineBackend(test, under, fixture);
      dockerhostFaults(test, under, fixture);
      const made = () => madeBy(fixture.engine);
      if (options.store !== "containerd") deployCrowd(test, under, made);
      // What it asks of the engine is the same by each of them.
      if (options.version === "20.10") {
        const socket = fixture.daemon.host.replace("unix://", "");
        engineFaults(test, under, { socket, made, forget: forgetBy(fixture.engine, "rmi", "-f") });
      }
    },
  });
}
