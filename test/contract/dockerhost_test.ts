/** The contract of deploy backends, by Docker 20.10 and 28. */
import { DOCKERHOST_FIELDS } from "../../backends/deploy/dockerhost/fields.ts";
import { requireTools } from "../e2e/harness.ts";
import type { DockerdOptions } from "../peers/dockerd.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { deployRollOut } from "./deploy_roll_out.ts";
import { deployContract } from "./deploy_suite.ts";
import { dockerhostFaults } from "./dockerhost_faults.ts";
import { dockerhostFixture } from "./dockerhost_fixture.ts";
import { engineBackend } from "./engine_backend.ts";

const COMMANDS = ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables"];

const LACKS = {
  "attach.end": "the engine ends the input with whoever detaches, or never",
  "files.holes":
    "the engine's archives have zeros for holes, and so have the files that it unpacks",
  "files.linked": "the engine gives the owner once more with each further name",
  "files.memory": "the engine's archives leave out what is in memory",
  "files.whole": "the engine removes a file before it writes the one that takes its place",
};

const DAEMONS: DockerdOptions[] = [
  { version: "20.10" },
  { version: "28" },
  { version: "28", store: "containerd" },
];

for (const options of DAEMONS) {
  const { version, store = "graph" } = options;
  deployContract({
    name: `dockerhost, Docker ${version}, ${store} store`,
    ...requireTools({
      root: true,
      commands: COMMANDS,
      files: version === "28" ? [UNSTABLE_READY] : [],
    }),
    fields: DOCKERHOST_FIELDS,
    lacks: LACKS,
    open: () => dockerhostFixture(options),
    own: (test, under, fixture) => {
      deployRollOut(test, under);
      engineBackend(test, under, fixture);
      dockerhostFaults(test, under, fixture);
    },
  });
}
