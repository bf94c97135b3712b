/** The same deployments as docker ran (test/golden/deploy), by Docker 28. */
import { OF_DOCKER } from "../golden/deploy/allowed.ts";
import { deployGolden } from "../golden/deploy/suite.ts";
import { withDocker } from "../golden/deploy/engines.ts";
import { requireTools } from "../e2e/harness.ts";
import { DOCKER_COMMANDS } from "./dockerhost_fixture.ts";

const commands = [...DOCKER_COMMANDS, "tini"];

Deno.test({
  name: "deployments by Docker 28 are what docker makes of them",
  ...requireTools({ root: true, commands }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: (t) =>
    withDocker(
      { version: "28", store: "containerd" },
      (runner) => deployGolden(t, runner, OF_DOCKER),
    ),
});
