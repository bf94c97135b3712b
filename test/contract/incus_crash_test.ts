/** The incus backend's server, killed at each request to the daemon and at each change of a file. */
import { dirname, join } from "node:path";
import { requireTools } from "../e2e/harness.ts";
import { INCUS_NEEDS } from "../peers/incus.ts";
import { deployCrash, EACH, ownSteps } from "./crash_deploy.ts";
import { engineFront } from "./engine_front.ts";
import { incusFixture, openIncus } from "./incus_fixture.ts";

Deno.test({
  name:
    "incus backend, killed at every step (with SVC_TEST_EACH_STEP: svc does the same with Docker)",
  ...requireTools(INCUS_NEEDS),
  ...!EACH && { ignore: true },
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await incusFixture();
    const { place, image, peer } = fixture;
    const rows = async (...args: string[]) =>
      (await peer.incus(...args, "--format", "csv")).stdout.split("\n").filter(Boolean);
    const socket = join(dirname(place.layout), "front.sock");
    await using front = await engineFront(socket, place.socket);
    const through = { ...place, socket };
    await deployCrash(t, {
      image,
      open: () => openIncus(place),
      steps: [
        front.steps("incus", through, "before"),
        front.steps("incus", through, "during"),
        ownSteps("incus", place),
      ],
      async found() {
        const states = await rows("list", "--columns", "s");
        return {
          containers: states.length,
          running: states.filter((state) => state === "RUNNING").length,
          networks: (await rows("network", "list", "--columns", "n"))
            .filter((name) => name.startsWith("svc")).length,
        };
      },
      expected: (instances, running) => ({
        ...{ containers: instances, running },
        networks: instances > 0 ? 2 : 0,
      }),
    });
  },
});
