/**
 * The same deployments as docker ran (test/golden/deploy): what a probe sees inside has to be what docker
 * showed it, but for what stands here. generate.ts there makes the record again.
 */
import { withBare } from "../golden/deploy/bare.ts";
import { CASES } from "../golden/deploy/cases.ts";
import { type Allowance, deployGolden } from "../golden/deploy/suite.ts";
import { requireTools } from "./harness.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "tini"],
});

/** Where bare differs from docker. */
const BARE: Allowance[] = [
  {
    key: /^(again\.)?cgroup\.devices/,
    why: "docker permits the console's device, which no instance has",
  },
  {
    key: "fd.0",
    cases: ["stdin"],
    why: "input is a FIFO, which any number of attached sessions write to",
  },
  { key: "exec.fd.0", why: "input of a command is a pipe, also where nobody writes to it" },
  { key: /^(pid|mount\..*init|dev\.svc-init)$/, why: "the init has another place" },
  {
    key: /^host\./,
    cases: /^network-none/,
    why: "the own name resolves without a network too",
  },
  {
    key: /^(status\.Cap|call\.)/,
    cases: ["privileged-drop"],
    why: "what is dropped is dropped, of a privileged one too",
  },
  {
    key: "fails",
    cases: ["pid-unknown", "ipc-unknown"],
    why: "a value that bare does not know is told as a warning, and refused with `strict`",
  },
  { key: "fails", cases: ["stop-large"], why: "refused at once; docker finds out when it stops" },
];

Deno.test({
  name: "deployments on bare are what docker makes of them",
  ignore,
  // The snapshotter's workers and pidless watchers live as long as the process.
  sanitizeOps: false,
  sanitizeResources: false,
  fn: (t) => withBare(CASES, (runner) => deployGolden(t, runner, BARE)),
});
