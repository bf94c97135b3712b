/** The contract of deploy backends, by podman 4.3 as root. */
import { PODMAN_FIELDS } from "../../backends/deploy/podman/fields.ts";
import { requireTools } from "../e2e/harness.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { deployContract } from "./deploy_suite.ts";
import { podmanFixture } from "./podman_fixture.ts";

const LATER = "the backend does not do it yet";

deployContract({
  name: "podman 4.3",
  ...requireTools({ root: true, commands: PODMAN_COMMANDS, files: PODMAN_FILES }),
  fields: PODMAN_FIELDS,
  lacks: {
    attach: LATER,
    files: LATER,
    top: "podman 4.3 gives each line of ps as one column",
    "exec.groups": "podman gives the groups to the main process alone",
    oom:
      "podman has no event for it, and 4.3 does not know it on control groups of the first version",
  },
  open: podmanFixture,
});
