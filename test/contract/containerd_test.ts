import { requireTools } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { bareEdges } from "./bare_edges.ts";
import { bareFiles } from "./bare_files.ts";
import { bareUntrusted } from "./bare_untrusted.ts";
import { containerdDetails } from "./containerd_backend.ts";
import { containerdFixture } from "./containerd_fixture.ts";
import { deployInTurn, deployRollOut } from "./deploy_roll_out.ts";
import { deployContract } from "./deploy_suite.ts";
import { hostBackend } from "./host_backend.ts";

const commands = ["containerd", "ctr", "runc", "perl", "flock", "iptables", "busybox"];

/** What is the same code whatever the daemon's version: it runs once. */
const HOST = [
  hostBackend,
  deployRollOut,
  deployInTurn,
  bareEdges,
  bareFiles,
  bareUntrusted,
];

for (const unstable of [false, true]) {
  deployContract({
    name: unstable ? "containerd 2" : "containerd 1.6",
    ...requireTools({ root: true, commands, files: unstable ? [UNSTABLE_READY] : [] }),
    open: () => containerdFixture({ unstable, snapshotter: unstable ? "native" : "overlayfs" }),
    own: (test, under, fixture) => {
      // The last one looks for what is left of all of them.
      for (const part of unstable ? [containerdDetails] : [...HOST, containerdDetails]) {
        part(test, { ...fixture, ...under });
      }
    },
  });
}
