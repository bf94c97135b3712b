/** The same deployments as docker ran (test/golden/deploy), by containerd 1.6. */
import { OF_CONTAINERD } from "../golden/deploy/allowed.ts";
import { deployGolden } from "../golden/deploy/suite.ts";
import { withContainerd } from "../golden/deploy/engines.ts";
import { requireTools } from "../e2e/harness.ts";

const commands = ["containerd", "ctr", "runc", "perl", "flock", "iptables", "busybox", "tini"];

Deno.test({
  name: "deployments by containerd 1.6 are what docker makes of them",
  ...requireTools({ root: true, commands }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: (t) => withContainerd({}, (runner) => deployGolden(t, runner, OF_CONTAINERD)),
});
