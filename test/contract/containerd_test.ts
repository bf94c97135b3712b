import { requireTools } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { containerdDetails } from "./containerd_backend.ts";
import { containerdFixture } from "./containerd_fixture.ts";
import { deployInTurn, deployRollOut } from "./deploy_roll_out.ts";
import { deployContract } from "./deploy_suite.ts";
import { hostBackend } from "./host_backend.ts";

const commands = ["containerd", "ctr", "runc", "perl", "flock", "iptables", "busybox"];

for (const unstable of [false, true]) {
  deployContract({
    name: unstable ? "containerd 2" : "containerd 1.6",
    ...requireTools({ root: true, commands, files: unstable ? [UNSTABLE_READY] : [] }),
    open: () => containerdFixture({ unstable, snapshotter: "overlayfs" }),
    own: (test, under, fixture) => {
      // The last one looks for what is left of all of them.
      for (const part of [hostBackend, deployRollOut, deployInTurn, containerdDetails]) {
        part(test, { ...fixture, ...under });
      }
    },
  });
}
