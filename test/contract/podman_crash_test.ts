/** The podman backend's server, killed at each request to podman and at each change of a file. */
import { dirname, join } from "node:path";
import { requireTools } from "../e2e/harness.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { deployCrash, EACH, ownSteps } from "./crash_deploy.ts";
import { engineFound } from "./engine_faults.ts";
import { engineFront } from "./engine_front.ts";
import { openPodman, podmanFixture } from "./podman_fixture.ts";

Deno.test({
  name:
    "podman backend, killed at every step (with SVC_TEST_EACH_STEP: svc does the same with Docker)",
  ...requireTools({ root: true, commands: PODMAN_COMMANDS, files: PODMAN_FILES }),
  ...!EACH && { ignore: true },
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await podmanFixture();
    const { place, image, engine } = fixture;
    const socket = join(dirname(place.dataDir), "front.sock");
    await using front = await engineFront(socket, place.socket);
    const through = { ...place, socket };
    await deployCrash(t, {
      image,
      open: () => openPodman(place),
      steps: [
        front.steps("podman", through, "before"),
        front.steps("podman", through, "during"),
        ownSteps("podman", place),
      ],
      ...engineFound(engine),
    });
  },
});
