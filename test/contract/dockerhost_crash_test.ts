/** The dockerhost backend's server, killed at each request to the daemon and at each change of a file. */
import { dirname, join } from "node:path";
import { requireTools } from "../e2e/harness.ts";
import { deployCrash, ownSteps } from "./crash_deploy.ts";
import { DOCKER_COMMANDS, dockerhostFixture, openDockerhost } from "./dockerhost_fixture.ts";
import { engineFound } from "./engine_faults.ts";
import { engineFront } from "./engine_front.ts";

Deno.test({
  name: "dockerhost backend, killed at every step",
  ...requireTools({ root: true, commands: DOCKER_COMMANDS }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await dockerhostFixture();
    const { place, image, engine } = fixture;
    const socket = join(dirname(place.dataDir), "front.sock");
    await using front = await engineFront(socket, place.host.replace("unix://", ""));
    const through = { ...place, host: `unix://${socket}` };
    await deployCrash(t, {
      image,
      open: () => openDockerhost(place),
      steps: [
        front.steps("dockerhost", through, "before"),
        front.steps("dockerhost", through, "during"),
        ownSteps("dockerhost", place),
      ],
      ...engineFound(engine),
    });
  },
});
