/** The contract of deploy backends, by podman 4.3 as root. */
import { requireTools } from "../e2e/harness.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { deployContract } from "./deploy_suite.ts";
import { engineMany } from "./engine_many.ts";
import { podmanFixture } from "./podman_fixture.ts";

deployContract({
  name: "podman 4.3",
  ...requireTools({ root: true, commands: PODMAN_COMMANDS, files: PODMAN_FILES }),
  open: podmanFixture,
  own: (test, under, { peer }) => engineMany(test, under, peer.podman),
});
