/**
 * The same deployments as docker ran (test/golden/deploy): what a probe sees inside has to be what docker
 * showed it, but for what stands here. generate.ts there makes the record again.
 */
import { withBare } from "../golden/deploy/bare.ts";
import { OF_HOST } from "../golden/deploy/allowed.ts";
import { CASES } from "../golden/deploy/cases.ts";
import { deployGolden } from "../golden/deploy/suite.ts";
import { requireTools } from "./harness.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "tini"],
});

Deno.test({
  name: "deployments on bare are what docker makes of them",
  ignore,
  // The snapshotter's workers and pidless watchers live as long as the process.
  sanitizeOps: false,
  sanitizeResources: false,
  fn: (t) => withBare(CASES, (runner) => deployGolden(t, runner, OF_HOST)),
});
