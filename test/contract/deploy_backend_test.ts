import { requireTools } from "../e2e/harness.ts";
import { bareAbilities } from "./bare_abilities.ts";
import { bareDetails } from "./bare_backend.ts";
import { bareEdges } from "./bare_edges.ts";
import { bareFiles } from "./bare_files.ts";
import { bareFixture } from "./bare_fixture.ts";
import { bareSettings } from "./bare_settings.ts";
import { bareUntrusted } from "./bare_untrusted.ts";
import { deployInTurn, deployRollOut } from "./deploy_roll_out.ts";
import { deployContract } from "./deploy_suite.ts";
import { hostBackend } from "./host_backend.ts";

deployContract({
  name: "bare",
  ...requireTools({ root: true, commands: ["runc", "conmon", "iptables", "busybox"] }),
  open: () => bareFixture(),
  own: (test, under, fixture) => {
    // The last one looks for what is left of all of them.
    for (
      const part of [
        hostBackend,
        deployRollOut,
        deployInTurn,
        bareSettings,
        bareEdges,
        bareAbilities,
        bareFiles,
        bareUntrusted,
        bareDetails,
      ]
    ) {
      part(test, { ...fixture, ...under });
    }
  },
});
